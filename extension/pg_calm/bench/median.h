/*-------------------------------------------------------------------------
 *
 * median.h
 *	  The figure that a benchmark reports of several.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_CALM_BENCH_MEDIAN_H
#define PG_CALM_BENCH_MEDIAN_H

#include <stdlib.h>

static int
compare_doubles(const void *a, const void *b)
{
	double left = *(const double *) a;
	double right = *(const double *) b;

	return (left > right) - (left < right);
}

/* Leaves values sorted */
static double
median(double *values, int count)
{
	qsort(values, count, sizeof(double), compare_doubles);
	return values[count / 2];
}

#endif /* PG_CALM_BENCH_MEDIAN_H */
