/* Noise by leaf: ln sigma^2(x) = sum_j lambda_j(x) ln sigma_j^2 with ln sigma_j^2 = ln variance + spread * deviation_j, and its
   gradient. Of the slots from the noise on: the variance that all share, the spread, the deviations. */

/* The noise at all points, from the weights of the leaves there. */
static void spread_noise(Work *w, const Model *m, int64_t n) {
  const double *at = w->value + noise_slot(m), *deviation = at + 2;
  double level = log(at[0]);
  for (int64_t i = 0; i < n; i++) {
    double sum = 0.0;
    for (int64_t j = 0; j < m->leaves; j++) sum += deviation[j] * w->share[j * w->n + i];
    w->own[i] = exp(level + at[1] * sum);
  }
}

/* The same at one point x (d) of whatever set, from the parameters alone. */
static double noise_at(const Model *m, const double *value, const double *x) {
  const double *normal = value + m->gates, *steepness = normal + m->gates * m->d, *at = value + noise_slot(m);
  if (!m->by_leaf) return at[0];
  double sum = 0.0;
  for (int64_t j = 0; j < m->leaves; j++) {
    double share = 1.0;
    for (int64_t k = 0; k < m->gates; k++) {
      int64_t side = m->path[j * m->gates + k];
      if (!side) continue;
      double t = value[k];
      for (int64_t c = 0; c < m->d; c++) t += normal[k * m->d + c] * x[c];
      share *= 1.0 / (1.0 + exp(-steepness[k] * t * side));
    }
    sum += at[2 + j] * share;
  }
  return exp(log(at[0]) + at[1] * sum);
}

/* The gradient in the noise, from dL/dK on the diagonal: (alpha^2 - K^-1)/2. What the gates have in it is added to dweight, the
   gradient in the logarithms of the leaf weights, as if these had no root. */
static void pull_noise(Work *w, const Model *m, int64_t count) {
  const double *at = w->value + noise_slot(m);
  double *to = w->pull + noise_slot(m), level = log(at[0]);
  int64_t n = (count + PAD - 1) / PAD * PAD;
  memset(w->by_own, 0, sizeof(double) * n);
  for (int64_t k = 0; k < count; k++) {
    const double *row = w->v + k * w->ld;
    for (int64_t i = 0; i <= k; i += W) store(w->by_own + i, load(w->by_own + i) + load(row + i) * load(row + i));
  }
  to[0] = to[1] = 0.0;
  for (int64_t i = 0; i < n; i++) {
    double h = i < count ? 0.5 * (w->alpha[i] * w->alpha[i] - w->by_own[i]) * w->own[i] : 0.0;
    w->by_own[i] = h;
    to[0] += h;
    if (i < count) to[1] += h * (log(w->own[i]) - level);
  }
  for (int64_t j = 0; j < m->leaves; j++) {
    double *dweight = w->dweight + j * w->n, sum = 0.0, by = at[1] * at[2 + j] * (m->root ? 2.0 : 1.0);
    const double *share = w->share + j * w->n;
    for (int64_t i = 0; i < count; i++) {
      sum += w->by_own[i] * share[i];
      dweight[i] += by * w->by_own[i] * share[i];
    }
    to[2 + j] = at[1] * sum;
  }
}
