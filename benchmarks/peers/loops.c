/* Sequential loops, one core. */

void gauss_seidel(float *u, long rows, long columns) {
    for (long i = 1; i < rows - 1; i++)
        for (long j = 1; j < columns - 1; j++) {
            float *c = u + i * columns + j;
            *c = 0.25f * (c[-columns] + c[columns] + c[-1] + c[1]);
        }
}

void recurrence(const float *x, float *y, long n, float a, float b) {
    float last = 0;
    for (long i = 0; i < n; i++)
        y[i] = last = a * last + b * x[i];
}

/* The first row is the start, the first and the last column are walls. */
void convection(float *u, long rows, long columns, float ratio) {
    for (long n = 1; n < rows; n++) {
        const float *before = u + (n - 1) * columns;
        for (long i = 1; i < columns - 1; i++)
            u[n * columns + i] = before[i] - ratio * (before[i] - before[i - 1]);
    }
}
