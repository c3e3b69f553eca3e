
/* Derivatives. */

/* Minus twice the derivative of the profile by the squared distance. */
static double slope_of(int kind, double squared)
{
    double value;
    double r;
    switch (kind) {
    case MATERN32:
        value = 3.0 * exp(-sqrt(3.0 * squared));
        break;
    case MATERN52:
        r = sqrt(5.0 * squared);
        value = (5.0 / 3.0) * (1.0 + r) * exp(-r);
        break;
    default:
        value = exp(-0.5 * squared);
        break;
    }
    return value;
}

/* The derivatives by column c of the weights of all leaves, to the power of the kernel. */
static void mixing_slopes_at(const part_t *part, size_t draw, const double *u, const double *here, size_t c, double *out)
{
    size_t j, k, i;
    for (j = 0; j < part->leaves; j++) {
        const signed char *side = part->side + (draw * part->leaves + j) * part->gates;
        double total = 0.0;
        for (k = 0; k < part->gates; k++) {
            if (side[k] != 0) {
                const double *normal = part->normal + (draw * part->gates + k) * DIMS;
                const double sign = (side[k] > 0) ? 1.0 : -1.0;
                double z = part->offset[draw * part->gates + k];
                for (i = 0; i < DIMS; i++) {
                    z += normal[i] * u[i];
                }
                total += sign * normal[c] / (1.0 + exp(sign * z));
            }
        }
        out[j] = part->power * here[j] * total;
    }
}

/* Mean and variance of the derivative of f by column c of the unit cube, standardised, under one draw. */
static void slope_moments(const part_t *part, size_t draw, const double *u, size_t c, double *mean, double *variance)
{
    const size_t n = part->points;
    const FACTOR *row = part->factor + draw * (n * (n + 1) / 2);
    const FACTOR *whitened = part->whitened + draw * n;
    double here[MAX_LEAVES];
    double changes[MAX_LEAVES];
    double v[MAX_POINTS];
    double total = 0.0;
    double prior = part->linear;
    size_t i, j, k;
    mixing_at(part, draw, u, here);
    mixing_slopes_at(part, draw, u, here, c, changes);
    for (j = 0; j < part->leaves; j++) {
        const double rate = part->rate[(draw * part->leaves + j) * DIMS + c];
        const double slope = here[j] * rate;
        prior += part->variance[draw * part->leaves + j] * (changes[j] * changes[j] + slope_of(part->profile, 0.0) * slope * slope);
    }
    for (i = 0; i < n; i++) {
        const double *x = part->x + i * DIMS;
        const double *there = part->mixing + (draw * n + i) * part->leaves;
        double sum = part->linear * (x[c] - 0.5);
        for (j = 0; j < part->leaves; j++) {
            const double weight = part->variance[draw * part->leaves + j] * there[j];
            const double *rate = part->rate + (draw * part->leaves + j) * DIMS;
            double squared = 0.0;
            for (k = 0; k < DIMS; k++) {
                const double apart = (u[k] - x[k]) * rate[k];
                squared += apart * apart;
            }
            sum += weight * (changes[j] * profile_of(part->profile, squared)
                             - here[j] * slope_of(part->profile, squared) * (u[c] - x[c]) * rate[c] * rate[c]);
        }
        v[i] = (sum - dot(row, v, i)) / row[i];
        row += i + 1;
        prior -= v[i] * v[i];
        total += whitened[i] * v[i];
    }
    *mean = total;
    *variance = fmax(prior, 0.0);
}

int @name@_slopes(const double *x, double *mean, double *std)
{
    double u[DIMS];
    double means[@max_draws@];
    double variances[@max_draws@];
    size_t p, a, draw;
    const int found = (ready != 0) ? to_unit(x, u) : @NAME@_NOT_READY;
    const int usable = (found & (@NAME@_NO_POINT | @NAME@_NOT_READY)) == 0;
    for (p = 0; p < @NAME@_OUTPUTS; p++) {
        const part_t *part = &parts[p];
        for (a = 0; a < @NAME@_INPUTS; a++) {
            const axis_t *axis = &axes[a];
            const int there = usable && (axis->kind == REAL);
            double centre = 0.0;
            double spread = 0.0;
            double scale = NAN;
            for (draw = 0; there && (draw < part->draws); draw++) {
                slope_moments(part, draw, u, axis->start, &means[draw], &variances[draw]);
                centre += part->weights[draw] * means[draw];
            }
            for (draw = 0; there && (draw < part->draws); draw++) {
                const double apart = means[draw] - centre;
                spread += part->weights[draw] * (variances[draw] + apart * apart);
            }
            if (there) {
                scale = part->scale / ((axis->end - axis->begin) * (axis->is_log ? x[a] : 1.0));
            }
            mean[p * @NAME@_INPUTS + a] = scale * centre;
            std[p * @NAME@_INPUTS + a] = scale * sqrt(spread);
        }
    }
    return found;
}
