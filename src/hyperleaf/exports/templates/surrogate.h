/* @TITLE@
 *
@CERTIFICATE@
 *
 * Call @name@_init() once, before any other function and in one thread; it returns 0, or else a draw could not be factorised.
 * @name@_predict() then may be called from any number of threads. Nothing is allocated.
 */
#ifndef @NAME@_H
#define @NAME@_H

#ifdef __cplusplus
extern "C" {
#endif

#define @NAME@_INPUTS @inputs@
#define @NAME@_OUTPUTS @outputs@
#define @NAME@_QUANTILES @quantiles@

/* What @name@_predict() returns: the bits that apply. */
#define @NAME@_INSIDE 0
#define @NAME@_OUTSIDE 1 /* beyond the domain: the values are extrapolated */
#define @NAME@_NO_POINT 2 /* there is no such point (an option or a whole number that is none, not a number): the values are NaN */
#define @NAME@_NOT_READY 4 /* @name@_init() was not called, or failed: the values are NaN */

/* Inputs, in this order:
@INPUT_LINES@
 * Outputs, in this order (mean and std of @what@):
@OUTPUT_LINES@
 */
extern const char *const @name@_input_names[@NAME@_INPUTS];
extern const char *const @name@_output_names[@NAME@_OUTPUTS];
extern const char *const @name@_data_hash; /* SHA-256 of what was learned from */

int @name@_init(void);

/* x: the inputs in native units, a choice as the number of its option. mean and std: one value for each output. quantiles: for
 * each output its quantiles in a row, or NULL. */
int @name@_predict(const double *x, double *mean, double *std, double *quantiles);
@SLOPES_HEADER@
#ifdef __cplusplus
}
#endif

#endif
