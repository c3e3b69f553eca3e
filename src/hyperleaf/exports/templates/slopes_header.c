
/* Derivatives of the latent outputs by the inputs that are real numbers, in native units: mean and std, for each output the inputs
 * in a row, NaN for other inputs. It answers as @name@_predict() does. */
int @name@_slopes(const double *x, double *mean, double *std);
