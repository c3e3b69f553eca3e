/* @TITLE@: see the header. C99, no allocation, nothing but libm.
 * Compiled with -D@NAME@_SELF_TEST this file is a program that compares itself with the numbers it must give.
 */
#include "@header@"

#include <math.h>
#include <stddef.h>

#define DIMS @dims@
#define MAX_POINTS @max_points@
#define MAX_LEAVES @max_leaves@
#define MAX_GATES @max_gates@
#define NOISY @noisy@
#define STORED @stored@ /* whether the factors stand here; else they are made by @name@_init() */

#if STORED
#define FACTOR const double
#else
#define FACTOR double
#endif

enum { REAL, INTEGER, CHOICE };
enum { RBF, MATERN12, MATERN32, MATERN52 };

typedef struct {
    int kind, is_log;
    double low, high, begin, end; /* begin and end of the unit interval, of log x on a log axis */
    size_t start, width;
} axis_t;

/* One output: s draws over n points, with l leaves and g gates. */
typedef struct {
    size_t draws, points, leaves, gates;
    int profile;
    double power, constant, linear, loc, scale;
    const double *weights;     /* s */
    const double *offset;      /* s g */
    const double *normal;      /* s g d */
    const signed char *side;   /* s l g */
    const double *rate;        /* s l d: one over the lengthscale */
    const double *variance;    /* s l */
    const double *noise;       /* s */
    const double *tilt;        /* s l: ln of the noise of a leaf, less that above */
    const double *x;           /* n d */
    const double *y;           /* n */
    const double *nugget;      /* s n */
    FACTOR *factor;            /* s n(n + 1)/2: rows of the lower triangle */
    FACTOR *whitened;          /* s n */
    double *mixing;            /* s n l, made by init */
} part_t;

@DATA@
static int ready = 0;

/* The weights of all leaves at a point, to the power of the kernel. */
static void mixing_at(const part_t *part, size_t draw, const double *u, double *out)
{
    double shut[MAX_GATES]; /* ln of the sigmoid of z */
    double open[MAX_GATES]; /* ln of the sigmoid of -z */
    size_t j, k;
    for (k = 0; k < part->gates; k++) {
        const double *normal = part->normal + (draw * part->gates + k) * DIMS;
        double z = part->offset[draw * part->gates + k];
        double tail;
        size_t c;
        for (c = 0; c < DIMS; c++) {
            z += normal[c] * u[c];
        }
        tail = log1p(exp(-fabs(z)));
        shut[k] = fmin(z, 0.0) - tail;
        open[k] = fmin(-z, 0.0) - tail;
    }
    for (j = 0; j < part->leaves; j++) {
        const signed char *side = part->side + (draw * part->leaves + j) * part->gates;
        double total = 0.0;
        for (k = 0; k < part->gates; k++) {
            if (side[k] > 0) {
                total += shut[k];
            } else if (side[k] < 0) {
                total += open[k];
            }
        }
        out[j] = exp(part->power * total);
    }
}

static double profile_of(int kind, double squared)
{
    double value;
    double r;
    switch (kind) {
    case MATERN12:
        value = exp(-sqrt(squared));
        break;
    case MATERN32:
        r = sqrt(3.0 * squared);
        value = (1.0 + r) * exp(-r);
        break;
    case MATERN52:
        r = sqrt(5.0 * squared);
        value = (1.0 + r + r * r / 3.0) * exp(-r);
        break;
    default:
        value = exp(-0.5 * squared);
        break;
    }
    return value;
}

/* Four sums at once: a processor need not wait for one addition before it begins the next. */
static double dot(const double *a, const double *b, size_t count)
{
    double s0 = 0.0;
    double s1 = 0.0;
    double s2 = 0.0;
    double s3 = 0.0;
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
    }
    for (; i < count; i++) {
        s0 += a[i] * b[i];
    }
    return (s0 + s1) + (s2 + s3);
}

/* The covariance of f at two points, given the weights of the leaves there. */
static double covariance(const part_t *part, size_t draw, const double *u, const double *wu, const double *v, const double *wv)
{
    double total = part->constant;
    size_t j, c;
    if (part->linear > 0.0) {
        for (c = 0; c < DIMS; c++) {
            total += part->linear * (u[c] - 0.5) * (v[c] - 0.5);
        }
    }
    for (j = 0; j < part->leaves; j++) {
        const double variance = part->variance[draw * part->leaves + j];
        if (variance > 0.0) {
            const double *rate = part->rate + (draw * part->leaves + j) * DIMS;
            double squared = 0.0;
            for (c = 0; c < DIMS; c++) {
                const double apart = (u[c] - v[c]) * rate[c];
                squared += apart * apart;
            }
            total += variance * wu[j] * wv[j] * profile_of(part->profile, squared);
        }
    }
    return total;
}

#if !STORED
/* The factor of the covariance of the data under one draw, and the outputs whitened by it; 0 if all went well. */
static int factorise(const part_t *part, size_t draw)
{
    const size_t n = part->points;
    const double *mixing = part->mixing + draw * n * part->leaves;
    double *factor = part->factor + draw * (n * (n + 1) / 2);
    double *whitened = part->whitened + draw * n;
    size_t i, j;
    int failed = 0;
    for (i = 0; (i < n) && (failed == 0); i++) {
        double *row = factor + i * (i + 1) / 2;
        double sum;
        for (j = 0; j <= i; j++) {
            const double *other = factor + j * (j + 1) / 2;
            sum = covariance(part, draw, part->x + i * DIMS, mixing + i * part->leaves, part->x + j * DIMS, mixing + j * part->leaves);
            if (i == j) {
                sum += part->nugget[draw * n + i];
            }
            sum -= dot(row, other, j);
            if (i == j) {
                failed = (sum > 0.0) ? 0 : 1;
                row[j] = sqrt(sum);
            } else {
                row[j] = sum / other[j];
            }
        }
        whitened[i] = (part->y[i] - dot(row, whitened, i)) / row[i];
    }
    return failed;
}
#endif

int @name@_init(void)
{
    int failed = 0;
    size_t p, draw, i;
    for (p = 0; (p < @NAME@_OUTPUTS) && (ready == 0); p++) {
        const part_t *part = &parts[p];
        for (draw = 0; draw < part->draws; draw++) {
            for (i = 0; i < part->points; i++) {
                mixing_at(part, draw, part->x + i * DIMS, part->mixing + (draw * part->points + i) * part->leaves);
            }
#if !STORED
            failed |= factorise(part, draw);
#endif
        }
    }
    ready = (failed == 0) ? 1 : 0;
    return failed;
}

/* Mean and variance of f, standardised, under one draw. */
static void moments(const part_t *part, size_t draw, const double *u, double *mean, double *variance)
{
    const size_t n = part->points;
    const FACTOR *row = part->factor + draw * (n * (n + 1) / 2);
    const FACTOR *whitened = part->whitened + draw * n;
    double here[MAX_LEAVES];
    double v[MAX_POINTS];
    double total = 0.0;
    double prior;
    size_t i;
    mixing_at(part, draw, u, here);
    prior = covariance(part, draw, u, here, u, here);
    for (i = 0; i < n; i++) {
        const double *there = part->mixing + (draw * n + i) * part->leaves;
        v[i] = (covariance(part, draw, u, here, part->x + i * DIMS, there) - dot(row, v, i)) / row[i];
        row += i + 1;
        prior -= v[i] * v[i];
        total += whitened[i] * v[i];
    }
    *mean = total;
    *variance = fmax(prior, 0.0);
}

#if NOISY
#define NOISE(part, draw, u) noise_at(part, draw, u)
/* The variance of the noise of a new observation, standardised, under one draw. */
static double noise_at(const part_t *part, size_t draw, const double *u)
{
    double here[MAX_LEAVES];
    double total = 0.0;
    size_t j;
    mixing_at(part, draw, u, here);
    for (j = 0; j < part->leaves; j++) {
        total += part->tilt[draw * part->leaves + j] * pow(here[j], 1.0 / part->power);
    }
    return part->noise[draw] * exp(total);
}
#else
#define NOISE(part, draw, u) 0.0
#endif

/* The inputs in the unit cube, and what is to be said of them. */
static int to_unit(const double *x, double *u)
{
    int found = @NAME@_INSIDE;
    size_t i, c;
    for (i = 0; i < @NAME@_INPUTS; i++) {
        const axis_t *axis = &axes[i];
        double value = x[i];
        const int within = (value >= axis->low - @slack@ * fabs(axis->low)) && (value <= axis->high + @slack@ * fabs(axis->high));
        if (within) {
            value = fmin(fmax(value, axis->low), axis->high);
        } else {
            found |= @NAME@_OUTSIDE;
        }
        if (axis->kind == REAL) {
            if (!isfinite(value) || (axis->is_log && !(value > 0.0))) {
                found |= @NAME@_NO_POINT;
            } else {
                const double t = ((axis->is_log ? log(value) : value) - axis->begin) / (axis->end - axis->begin);
                u[axis->start] = within ? fmin(fmax(t, 0.0), 1.0) : t;
            }
        } else if (!within || (value < floor(value)) || (value > floor(value))) {
            found |= @NAME@_NO_POINT;
        } else if (axis->kind == INTEGER) {
            const double place = value - 0.5 + (value - axis->low) / (axis->high - axis->low);
            const double t = ((axis->is_log ? log(place) : place) - axis->begin) / (axis->end - axis->begin);
            u[axis->start] = fmin(fmax(t, 0.0), 1.0);
        } else {
            for (c = 0; c < axis->width; c++) {
                u[axis->start + c] = ((size_t)value == c) ? 1.0 : 0.0;
            }
        }
    }
    if ((found & @NAME@_NO_POINT) != 0) {
        found |= @NAME@_OUTSIDE;
    }
    return found;
}

#if @NAME@_QUANTILES > 0
static double quantile(const part_t *part, const double *means, const double *stds, double level, double normal)
{
    double low = HUGE_VAL;
    double high = -HUGE_VAL;
    size_t draw;
    int step;
    for (draw = 0; draw < part->draws; draw++) {
        const double end = means[draw] + normal * stds[draw];
        low = fmin(low, end);
        high = fmax(high, end);
    }
    for (step = 0; step < 60; step++) {
        const double middle = 0.5 * (low + high);
        double below = 0.0;
        for (draw = 0; draw < part->draws; draw++) {
            below += part->weights[draw] * 0.5 * erfc((means[draw] - middle) / (fmax(stds[draw], 1e-300) * sqrt(2.0)));
        }
        if (below < level) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return part->loc + part->scale * 0.5 * (low + high);
}
#endif

int @name@_predict(const double *x, double *mean, double *std, double *quantiles)
{
    double u[DIMS];
    double means[@max_draws@];
    double stds[@max_draws@];
    size_t p, draw;
    int found = (ready != 0) ? to_unit(x, u) : @NAME@_NOT_READY;
    const int usable = (found & (@NAME@_NO_POINT | @NAME@_NOT_READY)) == 0;
    for (p = 0; p < @NAME@_OUTPUTS; p++) {
        const part_t *part = &parts[p];
        double centre = 0.0;
        double spread = 0.0;
        for (draw = 0; usable && (draw < part->draws); draw++) {
            double variance;
            moments(part, draw, u, &means[draw], &variance);
            stds[draw] = sqrt(variance + NOISE(part, draw, u));
            centre += part->weights[draw] * means[draw];
        }
        for (draw = 0; usable && (draw < part->draws); draw++) {
            const double apart = means[draw] - centre;
            spread += part->weights[draw] * (stds[draw] * stds[draw] + apart * apart);
        }
        mean[p] = usable ? part->loc + part->scale * centre : NAN;
        std[p] = usable ? part->scale * sqrt(spread) : NAN;
#if @NAME@_QUANTILES > 0
        if (quantiles != NULL) {
            size_t q;
            for (q = 0; q < @NAME@_QUANTILES; q++) {
                quantiles[p * @NAME@_QUANTILES + q] = usable ? quantile(part, means, stds, levels[q][0], levels[q][1]) : NAN;
            }
        }
#else
        (void)quantiles;
#endif
    }
    return found;
}
@SLOPES@
#ifdef @NAME@_SELF_TEST
#include <stdio.h>

@TEST@
int main(void)
{
    double worst = 0.0;
    size_t i, p;
    if (@name@_init() != 0) {
        printf("@name@: a draw could not be factorised\n");
        return 1;
    }
    for (i = 0; i < sizeof test_inputs / sizeof test_inputs[0]; i++) {
        double mean[@NAME@_OUTPUTS];
        double std[@NAME@_OUTPUTS];
        if (@name@_predict(test_inputs[i], mean, std, NULL) != @NAME@_INSIDE) {
            printf("@name@: test point %lu is said to be outside\n", (unsigned long)i);
            return 1;
        }
        for (p = 0; p < @NAME@_OUTPUTS; p++) {
            worst = fmax(worst, fabs(mean[p] - test_means[i][p]) / test_sizes[p]);
            worst = fmax(worst, fabs(std[p] - test_stds[i][p]) / test_sizes[p]);
        }
@SLOPES_TEST@    }
    printf("@name@: largest difference %.1e of the spread of the outputs\n", worst);
    return (worst <= 1e-9) ? 0 : 1;
}
#endif
