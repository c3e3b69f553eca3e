/* The log posterior of a partition of stationary leaves with its gradient, and Hamiltonian trajectories in it, for many draws.

   The covariance K = U'U is kept as its upper triangle by rows, V = L^-1 = U^-T as a lower triangle by rows. Factor, inverse factor
   and K^-1 = V'V are then sums of one form, C = sum_k A[k, rows] B[k, columns], read along the rows of A and B: `gather` does them
   all. Points stand in columns and are padded to a multiple of 8 by points without weight. A tile is R rows by W columns: one
   vector of the processor a row. Everything reads the triangle only, and K^-1 is used tile by tile as it arises, never stored. */

#include "vectors.h"

#define PAD 8
#define MAX_DIMS 64

enum { RBF, MATERN12, MATERN32, MATERN52 };

typedef struct {
  int64_t d, leaves, gates, kind, root, trend, size; /* trend: 0 none, 1 a constant, 2 linear; size is p */
  int64_t by_leaf;        /* whether every leaf has its own noise */
  double trend_variance;
  const int64_t *path;    /* (leaves, gates): 1 if the leaf lies left of the gate, -1 right, 0 neither */
  const int64_t *place;   /* (slots): where in z the number stands, -1 if it is fixed */
  const double *fixed;    /* (slots) */
  const int64_t *is_log;  /* (p): whether z holds the logarithm */
  const double *prior;    /* (5, p): ln p = c + a z - b (z - m)^2 / 2 - r exp(z) */
} Model;

typedef struct {
  int64_t rows, counts[2];
  double powers[2], moved_power, border;
  const double *x, *y, *noise, *moved; /* (rows, d), (rows), (rows), (p) */
} Target;

/* Slots: offset (g), normal (g, d), steepness (g), lengthscale (l, d), variance (l), noise; with noise by leaf, its spread and the
   deviation of each leaf (l) after that. */
typedef struct {
  int64_t n, ld, tiles; /* the padded number of points, the length of a row, the tiles of the triangle */
  double *xs;           /* (d, n): points in columns */
  double *value, *pull; /* (slots): the parameters; the gradient in each, or in its logarithm */
  double *logit, *left, *right; /* (g, n) */
  double *weight, *dweight;     /* (l, n): sqrt(variance) times the weight of the leaf, and the gradient in it */
  double *most;                 /* (l, n / PAD): the largest weight in a block of points */
  double *scale, *dscale;       /* (l, d): factors of the squared differences; sums for the lengthscales, a vector each */
  double *rows;                 /* (l, R): vectors */
  double *squares;              /* (d, R): vectors */
  double *tilt;                 /* (d + 1, n): features of the trend */
  double *share, *own, *by_own; /* with noise by leaf: (l, n) leaf weights; (n) the noise, and the gradient in its logarithm */
  double *k, *v, *profile;      /* (n, ld), (n, ld), kept profiles of the tiles */
  double *y, *white, *alpha, *inverse; /* (n) */
  char *memory;
} Work;

/* ---- memory */

static int64_t noise_slot(const Model *m) { return m->gates * (m->d + 2) + m->leaves * (m->d + 1); }
static int64_t slots(const Model *m) { return noise_slot(m) + 1 + (m->by_leaf ? 1 + m->leaves : 0); }

static int make(Work *w, const Model *m, int64_t rows, int keep) {
  int64_t n = (rows + PAD - 1) / PAD * PAD, l = m->leaves, g = m->gates, d = m->d;
  int64_t ld = (n / 8) % 2 ? n + 32 : n + 40; /* an odd number of cache lines, so that columns spread over the cache */
  int64_t tiles = (n / R) * (n / W) / 2 + n; /* at least those of the triangle */
  struct { double **p; int64_t size; } parts[] = {
      {&w->xs, d * n}, {&w->value, slots(m)}, {&w->pull, slots(m)}, {&w->logit, g * n}, {&w->left, g * n}, {&w->right, g * n},
      {&w->weight, l * n}, {&w->dweight, l * n}, {&w->most, l * (n / PAD)}, {&w->scale, l * d}, {&w->dscale, l * d * W},
      {&w->rows, l * R * W}, {&w->squares, d * R * W}, {&w->tilt, (d + 1) * n}, {&w->k, n * ld}, {&w->v, n * ld},
      {&w->profile, keep ? tiles * l * R * W * (m->kind == RBF ? 1 : 2) : 0},
      {&w->share, m->by_leaf ? l * n : 0}, {&w->own, m->by_leaf ? n : 0}, {&w->by_own, m->by_leaf ? n : 0},
      {&w->y, n}, {&w->white, n}, {&w->alpha, n}, {&w->inverse, n}};
  int64_t size = 64, num = sizeof parts / sizeof *parts;
  for (int64_t i = 0; i < num; i++) size += (parts[i].size * 8 + 63) / 64 * 64;
  w->n = n, w->ld = ld, w->tiles = tiles;
  w->memory = malloc(size);
  if (!w->memory) return 0;
  char *at = (char *)(((uintptr_t)w->memory + 63) / 64 * 64);
  for (int64_t i = 0; i < num; i++) *parts[i].p = (double *)at, at += (parts[i].size * 8 + 63) / 64 * 64;
  return 1;
}

/* ---- linear algebra */

/* acc[r][c] = sum over k in [from, to) of a[k, r] b[k, c W ...], with `width` vectors of columns */
HOT void gather(vec acc[R][PANEL], const double *a, const double *b, int64_t ld, int64_t from, int64_t to, const int width) {
  vec s[R][PANEL];
  for (int r = 0; r < R; r++)
    for (int c = 0; c < width; c++) s[r][c] = all(0.0);
  a += from * ld, b += from * ld;
  for (int64_t k = from; k < to; k++, a += ld, b += ld) {
    vec column[PANEL];
    for (int c = 0; c < width; c++) column[c] = load(b + c * W);
    for (int r = 0; r < R; r++)
      for (int c = 0; c < width; c++) s[r][c] += a[r] * column[c];
  }
  for (int r = 0; r < R; r++)
    for (int c = 0; c < width; c++) acc[r][c] = s[r][c];
}

/* Rows [i, i + R) of L X = B by forward substitution within the block, in place; `inverse` holds 1 / L's diagonal. */
HOT void substitute(vec x[R][PANEL], const double *u, int64_t ld, int64_t i, const double *inverse, const int width) {
  for (int r = 0; r < R; r++) {
    for (int s = 0; s < r; s++)
      for (int c = 0; c < width; c++) x[r][c] -= u[(i + s) * ld + i + r] * x[s][c];
    for (int c = 0; c < width; c++) x[r][c] *= inverse[i + r];
  }
}

HOT void factor_panel(double *u, int64_t ld, int64_t i, int64_t j, const double *inverse, const int width) {
  vec t[R][PANEL];
  gather(t, u + i, u + j, ld, 0, i, width);
  for (int r = 0; r < R; r++)
    for (int c = 0; c < width; c++) t[r][c] = load(u + (i + r) * ld + j + c * W) - t[r][c];
  substitute(t, u, ld, i, inverse, width);
  for (int r = 0; r < R; r++)
    for (int c = 0; c < width; c++) store(u + (i + r) * ld + j + c * W, t[r][c]);
}

/* U with U'U = K, from K's upper triangle and in its place; 0 if K is not positive definite. */
static int factorise(double *u, int64_t n, int64_t ld, double *inverse) {
  for (int64_t i = 0; i < n; i += R) {
    vec t[R][PANEL];
    gather(t, u + i, u + i, ld, 0, i, R / W);
    for (int r = 0; r < R; r++)
      for (int c = 0; c < R / W; c++) store(u + (i + r) * ld + i + c * W, load(u + (i + r) * ld + i + c * W) - t[r][c]);
    for (int r = 0; r < R; r++) {
      double *row = u + (i + r) * ld + i;
      for (int s = 0; s < r; s++) {
        const double *above = u + (i + s) * ld + i;
        for (int c = r; c < R; c++) row[c] -= above[r] * above[c];
      }
      if (!(row[r] > 0.0) || row[r] > 1e300) return 0;
      double pivot = sqrt(row[r]);
      inverse[i + r] = 1.0 / pivot;
      row[r] = pivot;
      for (int c = r + 1; c < R; c++) row[c] *= inverse[i + r];
    }
    int64_t j = i + R;
    for (; j + PANEL * W <= n; j += PANEL * W) factor_panel(u, ld, i, j, inverse, PANEL);
    for (; j < n; j += W) factor_panel(u, ld, i, j, inverse, 1);
  }
  return 1;
}

HOT void invert_panel(double *v, const double *u, int64_t ld, int64_t i, int64_t j, const double *inverse, const int width) {
  vec t[R][PANEL];
  gather(t, u + i, v + j, ld, j, i, width);
  for (int r = 0; r < R; r++)
    for (int c = 0; c < width; c++) t[r][c] = -t[r][c];
  substitute(t, u, ld, i, inverse, width);
  for (int r = 0; r < R; r++)
    for (int c = 0; c < width; c++) store(v + (i + r) * ld + j + c * W, t[r][c]);
}

/* V = L^-1, with zeros right of the diagonal as far as a panel reaches. */
static void invert(double *v, const double *u, int64_t n, int64_t ld, const double *inverse) {
  for (int64_t i = 0; i < n; i += R) {
    int64_t j = 0;
    for (; j + PANEL * W <= i; j += PANEL * W) invert_panel(v, u, ld, i, j, inverse, PANEL);
    for (; j < i; j += W) invert_panel(v, u, ld, i, j, inverse, 1);
    vec t[R][PANEL];
    for (int r = 0; r < R; r++)
      for (int c = 0; c < R / W; c++) {
        for (int k = 0; k < W; k++) t[r][c][k] = (double)(r == c * W + k);
      }
    substitute(t, u, ld, i, inverse, R / W);
    for (int r = 0; r < R; r++) {
      for (int c = 0; c < R / W; c++) store(v + (i + r) * ld + i + c * W, t[r][c]);
      memset(v + (i + r) * ld + i + R, 0, sizeof(double) * PANEL * W);
    }
  }
}

#include "leaf_noise.h"

/* ---- the kernel */

/* The parameters of a draw, and what of the data does not depend on the profile: the weights of all leaves at all points. */
static void prepare(Work *w, const Model *m, const double *z, int64_t count) {
  int64_t n = (count + PAD - 1) / PAD * PAD, d = m->d, g = m->gates, l = m->leaves;
  for (int64_t i = 0; i < slots(m); i++) {
    int64_t at = m->place[i];
    w->value[i] = at < 0 ? m->fixed[i] : m->is_log[at] ? exp(z[at]) : z[at];
  }
  const double *offset = w->value, *normal = offset + g, *steepness = normal + g * d, *lengthscale = steepness + g;
  const double *variance = lengthscale + l * d;
  for (int64_t k = 0; k < g; k++)
    for (int64_t i = 0; i < n; i += W) {
      vec t = all(offset[k]);
      for (int64_t c = 0; c < d; c++) t += normal[k * d + c] * load(w->xs + c * w->n + i);
      t *= steepness[k];
      vec e = power_of_two(-LOG2E * larger(t, -t)), one = 1.0 / (1.0 + e), other = e * one;
      whole right = t < all(0.0);
      store(w->logit + k * w->n + i, t);
      store(w->left + k * w->n + i, (vec)((right & (whole)other) | (~right & (whole)one)));
      store(w->right + k * w->n + i, (vec)((right & (whole)one) | (~right & (whole)other)));
    }
  for (int64_t j = 0; j < l; j++) {
    double *weight = w->weight + j * w->n, deviation = sqrt(variance[j]);
    for (int64_t i = 0; i < n; i += W) {
      vec t = all(1.0);
      for (int64_t k = 0; k < g; k++) {
        int64_t side = m->path[j * g + k];
        if (side) t *= load((side > 0 ? w->left : w->right) + k * w->n + i);
      }
      store(weight + i, deviation * (m->root ? root_of(t) : t));
      if (m->by_leaf) store(w->share + j * w->n + i, t);
    }
    for (int64_t i = count; i < n; i++) weight[i] = 0.0;
    for (int64_t i = 0; i < n; i += PAD) {
      double most = 0.0;
      for (int64_t k = i; k < i + PAD; k++) most = weight[k] > most ? weight[k] : most;
      w->most[j * (w->n / PAD) + i / PAD] = most;
    }
    for (int64_t c = 0; c < d; c++) w->scale[j * d + c] = 1.0 / (lengthscale[j * d + c] * lengthscale[j * d + c]);
  }
  if (m->by_leaf) spread_noise(w, m, n);
}

/* phi(r^2) and its derivative in r^2, as in kernels/stationary.py */
HOT void profile_of(vec squared, vec *phi, vec *slope, const int kind) {
  if (kind == RBF) {
    *phi = power_of_two((-0.5 * LOG2E) * squared);
  } else if (kind == MATERN12) {
    vec s = root_of(larger(squared, all(1e-300))), e = power_of_two(-LOG2E * s);
    whole apart = squared > all(1e-300);
    *phi = e;
    *slope = (vec)(apart & (whole)(-0.5 * e / s));
  } else if (kind == MATERN32) {
    vec s = root_of(larger(3.0 * squared, all(1e-300))), e = power_of_two(-LOG2E * s);
    *phi = (1.0 + s) * e;
    *slope = -1.5 * e;
  } else {
    vec s = root_of(larger(5.0 * squared, all(1e-300))), e = power_of_two(-LOG2E * s);
    *phi = (1.0 + s + s * s * (1.0 / 3.0)) * e;
    *slope = (-5.0 / 6.0) * (1.0 + s) * e;
  }
}

HOT void squares_of(Work *w, int64_t i, int64_t j, const int64_t d) {
  vec *square = (vec *)w->squares;
  for (int64_t c = 0; c < d; c++) {
    const double *x = w->xs + c * w->n;
    vec there = load(x + j);
    for (int r = 0; r < R; r++) {
      vec t = x[i + r] - there;
      square[c * R + r] = t * t;
    }
  }
}

/* A leaf that is shut on either side of a tile adds less than rounding does there. */
HOT int shut(const Work *w, int64_t leaf, int64_t i, int64_t j, double least) {
  const double *most = w->most + leaf * (w->n / PAD);
  return most[i / PAD] * most[j / PAD] < least;
}

/* K's upper triangle without noise; profiles are kept if there is room for them. */
HOT void fill(Work *w, const Model *m, int64_t count, double least, int keep, const int64_t d, const int kind) {
  int64_t n = (count + PAD - 1) / PAD * PAD, l = m->leaves, features = m->trend == 0 ? 0 : m->trend == 1 ? 1 : d + 1;
  double deviation = sqrt(m->trend_variance);
  for (int64_t c = 0; c < features; c++)
    for (int64_t i = 0; i < n; i++)
      w->tilt[c * w->n + i] = i >= count ? 0.0 : deviation * (c ? w->xs[(c - 1) * w->n + i] - 0.5 : 1.0);
  vec *kept = (vec *)w->profile;
  const vec *square = (const vec *)w->squares;
  for (int64_t i = 0; i < n; i += R)
    for (int64_t j = i / W * W; j < n; j += W) {
      vec sum[R];
      squares_of(w, i, j, d);
      for (int r = 0; r < R; r++) sum[r] = all(0.0);
      for (int64_t leaf = 0; leaf < l; leaf++) {
        if (shut(w, leaf, i, j, least)) continue;
        const double *scale = w->scale + leaf * d, *weight = w->weight + leaf * w->n;
        vec there = load(weight + j), q[R], slope = all(0.0);
        for (int r = 0; r < R; r++) q[r] = scale[0] * square[r];
        for (int64_t c = 1; c < d; c++)
          for (int r = 0; r < R; r++) q[r] += scale[c] * square[c * R + r];
        for (int r = 0; r < R; r++) {
          vec phi;
          profile_of(q[r], &phi, &slope, kind);
          sum[r] += (weight[i + r] * there) * phi;
          if (keep) {
            *kept++ = phi;
            if (kind != RBF) *kept++ = slope;
          }
        }
      }
      for (int64_t c = 0; c < features; c++) {
        vec there = load(w->tilt + c * w->n + j);
        for (int r = 0; r < R; r++) sum[r] += w->tilt[c * w->n + i + r] * there;
      }
      for (int r = 0; r < R; r++) store(w->k + (i + r) * w->ld + j, sum[r]);
    }
}

/* The gradient in weights and lengthscales, from dL/dK = (alpha alpha' - K^-1)/2; each entry off the diagonal stands for two. */
HOT void pull_tile(Work *w, const Model *m, int64_t i, int64_t j, const vec g[R], const vec **kept, double least, int keep,
                   const int64_t d, const int kind) {
  const vec *square = (const vec *)w->squares;
  squares_of(w, i, j, d);
  for (int64_t leaf = 0; leaf < m->leaves; leaf++) {
    if (shut(w, leaf, i, j, least)) continue;
    const double *weight = w->weight + leaf * w->n, *scale = w->scale + leaf * d;
    double *dweight = w->dweight + leaf * w->n;
    vec *row = (vec *)w->rows + leaf * R, *dscale = (vec *)w->dscale + leaf * d;
    vec there = load(weight + j), column = load(dweight + j), p[R];
    for (int r = 0; r < R; r++) {
      vec phi, slope = all(0.0);
      if (keep) {
        phi = *(*kept)++;
        if (kind != RBF) slope = *(*kept)++;
      } else {
        vec q = scale[0] * square[r];
        for (int64_t c = 1; c < d; c++) q += scale[c] * square[c * R + r];
        profile_of(q, &phi, &slope, kind);
      }
      vec pulled = g[r] * phi;
      row[r] += pulled * there;
      column += weight[i + r] * pulled;
      if (kind != RBF) pulled = g[r] * slope;
      p[r] = pulled * (weight[i + r] * there);
    }
    store(dweight + j, column);
    for (int64_t c = 0; c < d; c++) {
      vec s = dscale[c];
      for (int r = 0; r < R; r++) s += p[r] * square[c * R + r];
      dscale[c] = s;
    }
  }
}

HOT void pull_panel(Work *w, const Model *m, int64_t i, int64_t j, int64_t n, double ridge, const vec **kept, double least, int keep,
                    const int64_t d, const int kind, const int width) {
  vec t[R][PANEL];
  gather(t, w->v + i, w->v + j, w->ld, j, n, width);
  for (int c = 0; c < width; c++) {
    vec g[R], there = load(w->alpha + j + c * W);
    for (int r = 0; r < R; r++) {
      g[r] = w->alpha[i + r] * there - t[r][c];
      for (int k = 0; j + c * W < i + R && k < W; k++) { /* beside the diagonal: half of it, nothing left of it */
        int64_t column = j + c * W + k;
        if (column == i + r) g[r][k] = 0.5 * (g[r][k] + ridge);
        if (column < i + r) g[r][k] = 0.0;
      }
    }
    pull_tile(w, m, i, j + c * W, g, kept, least, keep, d, kind);
  }
}

HOT void pull_back(Work *w, const Model *m, int64_t count, double ridge, double least, int keep, const int64_t d, const int kind) {
  int64_t n = (count + PAD - 1) / PAD * PAD, l = m->leaves;
  const vec *kept = (const vec *)w->profile;
  memset(w->dweight, 0, sizeof(double) * l * w->n);
  memset(w->dscale, 0, sizeof(double) * l * d * W);
  for (int64_t i = 0; i < n; i += R) {
    memset(w->rows, 0, sizeof(double) * l * R * W);
    int64_t j = i / W * W;
    for (; j + PANEL * W <= n; j += PANEL * W) pull_panel(w, m, i, j, n, ridge, &kept, least, keep, d, kind, PANEL);
    for (; j < n; j += W) pull_panel(w, m, i, j, n, ridge, &kept, least, keep, d, kind, 1);
    for (int64_t leaf = 0; leaf < l; leaf++)
      for (int r = 0; r < R; r++) w->dweight[leaf * w->n + i + r] += total(((vec *)w->rows)[leaf * R + r]);
  }
}

/* The profile is known when this is compiled, and up to three inputs are counted then: the compiler unrolls what it can. */
#ifndef KIND
#define KIND RBF
#endif
#ifndef DIMS
#define DIMS m->d
#endif

static void build(Work *w, const Model *m, int64_t count, double least, int keep) {
  fill(w, m, count, least, keep, DIMS, KIND);
}

static void unbuild(Work *w, const Model *m, int64_t count, double ridge, double least, int keep) {
  pull_back(w, m, count, ridge, least, keep, DIMS, KIND);
}

/* ---- densities */

#define RELATIVE_JITTER 1e-10
#define SHUT 1e-18
#define CACHE 1000000 /* bytes of profiles that are worth keeping; more of them would come from memory slower than anew */

/* K with all that stands on its diagonal; returns the mean variance before noise. */
static double covariance(Work *w, const Model *m, const Target *t, int64_t count, int keep) {
  int64_t n = (count + PAD - 1) / PAD * PAD;
  double largest = 0.0, scale = 0.0, noise = w->value[noise_slot(m)];
  for (int64_t j = 0; j < m->leaves; j++)
    for (int64_t i = 0; i < n / PAD; i++) {
      double most = w->most[j * (w->n / PAD) + i];
      largest = most * most > largest ? most * most : largest;
    }
  build(w, m, count, SHUT * largest, keep);
  for (int64_t i = 0; i < count; i++) scale += w->k[i * w->ld + i];
  scale /= count > 0 ? count : 1;
  if (m->by_leaf)
    for (int64_t i = 0; i < count; i++) w->k[i * w->ld + i] += w->own[i] + t->noise[i] + RELATIVE_JITTER * scale;
  else
    for (int64_t i = 0; i < count; i++) w->k[i * w->ld + i] += noise + t->noise[i] + RELATIVE_JITTER * scale;
  for (int64_t i = count; i < n; i++) w->k[i * w->ld + i] = 1.0;
  return SHUT * largest;
}

static double log_density(const Work *w, int64_t count) {
  double squares = 0.0, logs = 0.0;
  for (int64_t i = 0; i < count; i++) squares += w->white[i] * w->white[i], logs += log(w->inverse[i]);
  double value = -0.5 * squares + logs - 0.5 * count * 1.8378770664093453;
  return isfinite(value) ? value : -INFINITY;
}

static void take_outputs(Work *w, const Target *t, int64_t count) {
  int64_t n = (count + PAD - 1) / PAD * PAD;
  for (int64_t i = 0; i < n; i++) w->y[i] = i < count ? t->y[i] : 0.0;
}

/* L w = y by columns of L, which are rows of U */
static void whiten(Work *w, int64_t n) {
  memcpy(w->white, w->y, sizeof(double) * n);
  for (int64_t k = 0; k < n; k++) {
    const double *row = w->k + k * w->ld;
    double t = w->white[k] * w->inverse[k];
    w->white[k] = t;
    for (int64_t i = k + 1; i < n; i++) w->white[i] -= t * row[i];
  }
}

/* ln p(y | z) of the first `count` observations; adds `power` times its gradient to that in z. */
static double likelihood(Work *w, const Model *m, const Target *t, const double *z, int64_t count, double power, double *gradient) {
  int64_t n = (count + PAD - 1) / PAD * PAD, d = m->d, g = m->gates, l = m->leaves;
  int keep = n * n / 2 * l * 8 * (m->kind == RBF ? 1 : 2) <= CACHE;
  if (count == 0) return 0.0;
  prepare(w, m, z, count);
  double least = covariance(w, m, t, count, keep);
  take_outputs(w, t, count);
  if (!factorise(w->k, n, w->ld, w->inverse)) return -INFINITY;
  invert(w->v, w->k, n, w->ld, w->inverse);
  memset(w->alpha, 0, sizeof(double) * n);
  for (int64_t k = 0; k < n; k++) {
    const double *row = w->v + k * w->ld;
    vec s = all(0.0);
    for (int64_t i = 0; i <= k; i += W) s += load(row + i) * load(w->y + i);
    double here = w->white[k] = total(s);
    for (int64_t i = 0; i <= k; i += W) store(w->alpha + i, load(w->alpha + i) + here * load(row + i));
  }
  double value = log_density(w, count);
  if (value == -INFINITY) return value;

  /* The diagonal of K^-1 is the squares of V's columns; noise and jitter stand on K's. */
  double trace = 0.0;
  for (int64_t i = 0; i < count; i++) trace += w->alpha[i] * w->alpha[i];
  vec squares = all(0.0);
  for (int64_t k = 0; k < count; k++) {
    const double *row = w->v + k * w->ld;
    for (int64_t i = 0; i <= k; i += W) squares += load(row + i) * load(row + i);
  }
  trace -= total(squares);
  unbuild(w, m, count, RELATIVE_JITTER * trace / count, least, keep);

  double *to_offset = w->pull, *to_normal = to_offset + g, *to_steepness = to_normal + g * d, *to_length = to_steepness + g;
  double *to_variance = to_length + l * d, *to_noise = to_variance + l;
  double by_slope = m->kind == RBF ? 1.0 : -2.0; /* d phi / d ln l_k = -2 phi' r_k^2, and phi' = -phi/2 for the RBF */
  for (int64_t j = 0; j < l; j++) {
    double *h = w->dweight + j * w->n, s = 0.0; /* from here on the gradient in the log of the weight, before the root */
    for (int64_t i = 0; i < count; i++) h[i] *= w->weight[j * w->n + i], s += h[i];
    for (int64_t i = count; i < n; i++) h[i] = 0.0;
    to_variance[j] = 0.5 * s;
    for (int64_t c = 0; c < d; c++) to_length[j * d + c] = by_slope * total(((vec *)w->dscale)[j * d + c]) * w->scale[j * d + c];
  }
  *to_noise = 0.5 * trace * w->value[noise_slot(m)];
  if (m->by_leaf) pull_noise(w, m, count);
  for (int64_t k = 0; k < g; k++) {
    double steepness = w->value[g + g * d + k];
    vec sum = all(0.0), tilt = all(0.0), turn[64];
    int64_t together = d < 64 ? d : 64;
    for (int64_t c = 0; c < together; c++) turn[c] = all(0.0);
    for (int64_t i = 0; i < n; i += W) {
      vec left = all(0.0), right = all(0.0);
      for (int64_t j = 0; j < l; j++) {
        int64_t side = m->path[j * g + k];
        if (side > 0) left += load(w->dweight + j * w->n + i);
        if (side < 0) right += load(w->dweight + j * w->n + i);
      }
      vec slope = left * load(w->right + k * w->n + i) - right * load(w->left + k * w->n + i);
      if (m->root) slope *= 0.5;
      sum += slope;
      tilt += slope * load(w->logit + k * w->n + i);
      for (int64_t c = 0; c < together; c++) turn[c] += slope * load(w->xs + c * w->n + i);
    }
    to_offset[k] = steepness * total(sum);
    to_steepness[k] = total(tilt);
    for (int64_t c = 0; c < together; c++) to_normal[k * d + c] = steepness * total(turn[c]);
  }
  for (int64_t i = 0; i < slots(m); i++)
    if (m->place[i] >= 0) gradient[m->place[i]] += power * w->pull[i];
  return value;
}

static double log_prior(const Model *m, const double *z, const double *moved, double power, double *gradient) {
  int64_t p = m->size;
  const double *c = m->prior, *a = c + p, *b = a + p, *mean = b + p, *rate = mean + p;
  double value = 0.0;
  for (int64_t i = 0; i < p; i++) {
    double at = z[i] + (moved ? moved[i] : 0.0), off = at - mean[i], tail = rate[i] > 0.0 ? rate[i] * exp(at) : 0.0;
    value += c[i] + a[i] * at - 0.5 * b[i] * off * off - tail;
    gradient[i] += power * (a[i] - b[i] * off - tail);
  }
  return value;
}

static double density(Work *w, const Model *m, const Target *t, const double *z, double *gradient) {
  memset(gradient, 0, sizeof(double) * m->size);
  double value = log_prior(m, z, NULL, 1.0 - t->moved_power, gradient);
  if (t->moved_power != 0.0) value += t->moved_power * (log_prior(m, z, t->moved, t->moved_power, gradient) - value);
  for (int term = t->powers[0] == 0.0 || t->counts[0] == 0 ? 1 : 0; term < (t->powers[1] == 0.0 ? 1 : 2); term++)
    value += t->powers[term] * likelihood(w, m, t, z, t->counts[term], t->powers[term], gradient);
  return isnan(value) ? -INFINITY : value;
}

/* Of all observations; with noise by leaf, the geometric mean over them. */
static double noise_of(Work *w, const Model *m, const Target *t, const double *z) {
  if (m->by_leaf) {
    double sum = 0.0;
    int64_t count = t->counts[1];
    prepare(w, m, z, count);
    for (int64_t i = 0; i < count; i++) sum += log(w->own[i]);
    return exp(sum / (count ? count : 1));
  }
  int64_t last = noise_slot(m), at = m->place[last];
  return at < 0 ? m->fixed[last] : m->is_log[at] ? exp(z[at]) : z[at];
}

/* ---- jobs: what is done with each draw, and the threads that share the draws */

typedef struct {
  const Model *model;
  const Target *target;
  int64_t num, strata;
  const double *z;                                                   /* (s, p) */
  const int64_t *length;                                             /* (s) */
  const double *step_size, *mass, *jitter, *normal, *uniform, *heats; /* (k), (k, p), (s), (s, p), (s), (h) */
  int64_t num_heats;
  double *to, *value, *gradient, *acceptance; /* (s, p), (s), (s, p) in the chart, (s) */
  double power;                               /* of the steepness, in the chart that trajectories run in */
} Job;

/* Where ln(steepness) of gate i stands in z, and where offset and normal; -1 for those that are fixed. */
HOT int64_t steepness_place(const Model *m, int64_t i) { return m->place[m->gates * (m->d + 1) + i]; }
HOT int64_t scaled_place(const Model *m, int64_t i, int64_t k) { return m->place[k == 0 ? i : m->gates + i * m->d + k - 1]; }

/* Offset and normal of each gate times exp(power * ln(steepness)): into the chart, or out of it with -power. */
static void scale_gates(const Model *m, double power, double *z) {
  for (int64_t i = 0; i < m->gates; i++) {
    int64_t by = steepness_place(m, i);
    if (by < 0) continue;
    double factor = exp(power * z[by]);
    for (int64_t k = 0; k <= m->d; k++)
      if (scaled_place(m, i, k) >= 0) z[scaled_place(m, i, k)] *= factor;
  }
}

/* ln |dz/du|; if there is a gradient, it becomes that of the log density of u. */
static double chart_volume(const Model *m, double power, const double *z, double *gradient) {
  double volume = 0.0;
  for (int64_t i = 0; i < m->gates; i++) {
    int64_t by = steepness_place(m, i);
    if (by < 0) continue;
    double factor = exp(-power * z[by]);
    for (int64_t k = 0; k <= m->d; k++) {
      int64_t place = scaled_place(m, i, k);
      if (place < 0) continue;
      volume -= power * z[by];
      gradient[by] -= power * (z[place] * gradient[place] + 1.0);
      gradient[place] *= factor;
    }
  }
  return volume;
}

static void trajectory(Work *w, const Job *job, int64_t s, double *room) {
  const Model *m = job->model;
  int64_t p = m->size, length = job->length[s];
  const double *z = job->z + s * p;
  int here = noise_of(w, m, job->target, z) < job->target->border;
  const double *mass = job->mass + here * p;
  double epsilon = job->step_size[here] * job->jitter[s];
  double *at = room, *momentum = at + p, *gradient = momentum + p, *first = gradient + p, *now = first + p; /* at: in the chart */
  double kinetic = 0.0, start = 0.0, value = 0.0, end = 0.0, first_volume = 0.0, volume = 0.0;
  for (int64_t i = 0; i < p; i++) {
    at[i] = z[i];
    momentum[i] = sqrt(mass[i]) * job->normal[s * p + i];
    kinetic += momentum[i] * momentum[i] / mass[i];
  }
  scale_gates(m, job->power, at);
  for (int64_t step = 0; step <= length; step++) {
    memcpy(now, at, sizeof(double) * p);
    scale_gates(m, -job->power, now);
    value = density(w, m, job->target, now, gradient);
    volume = chart_volume(m, job->power, now, gradient);
    for (int64_t i = 0; i < p; i++) {
      double g = gradient[i];
      gradient[i] = isnan(g) ? 0.0 : g > 1e150 ? 1e150 : g < -1e150 ? -1e150 : g;
    }
    if (step == 0) start = value, first_volume = volume, memcpy(first, gradient, sizeof(double) * p);
    if (step > 0)
      for (int64_t i = 0; i < p; i++) momentum[i] += 0.5 * epsilon * gradient[i];
    end = 0.0;
    for (int64_t i = 0; i < p; i++) end += momentum[i] * momentum[i] / mass[i];
    end = 0.5 * end - (value + volume);
    if (step < length)
      for (int64_t i = 0; i < p; i++) {
        momentum[i] += 0.5 * epsilon * gradient[i];
        at[i] += epsilon * momentum[i] / mass[i];
      }
  }
  double change = 0.5 * kinetic - (start + first_volume) - end;
  double acceptance = isnan(change) ? 0.0 : change < 0.0 ? exp(change) : 1.0;
  int accept = job->uniform[s] < acceptance && (noise_of(w, m, job->target, now) < job->target->border) == here;
  memcpy(job->to + s * p, accept ? now : z, sizeof(double) * p);
  memcpy(job->gradient + s * p, accept ? gradient : first, sizeof(double) * p);
  job->value[s] = accept ? value : start;
  job->acceptance[s] = acceptance;
}

/* ln p(y | z) with each of several variances more, which leave the kernel as it is */
static void noisier(Work *w, const Job *job, int64_t s) {
  const Model *m = job->model;
  int64_t count = job->target->counts[1], n = (count + PAD - 1) / PAD * PAD;
  prepare(w, m, job->z + s * m->size, count);
  covariance(w, m, job->target, count, 0);
  take_outputs(w, job->target, count);
  memcpy(w->v, w->k, sizeof(double) * n * w->ld);
  for (int64_t h = 0; h < job->num_heats; h++) {
    memcpy(w->k, w->v, sizeof(double) * n * w->ld);
    for (int64_t i = 0; i < count; i++) w->k[i * w->ld + i] += job->heats[h];
    double *value = job->value + s * job->num_heats + h;
    *value = -INFINITY;
    if (!factorise(w->k, n, w->ld, w->inverse)) continue;
    whiten(w, n);
    *value = log_density(w, count);
  }
}

typedef struct {
  const Job *job;
  atomic_llong next;
  atomic_int failed;
  int kind;
} Shared;

enum { TRAJECTORIES, LIKELIHOODS };

static void *labour(void *given) {
  Shared *shared = given;
  const Job *job = shared->job;
  const Model *m = job->model;
  const Target *t = job->target;
  Work w;
  double *room = malloc(sizeof(double) * 5 * (m->size + 1));
  if (!room || !make(&w, m, t->rows, shared->kind == TRAJECTORIES)) {
    free(room);
    atomic_store(&shared->failed, 1);
    return NULL;
  }
  for (int64_t c = 0; c < m->d; c++)
    for (int64_t i = 0; i < w.n; i++) w.xs[c * w.n + i] = i < t->rows ? t->x[i * m->d + c] : 0.5;
  for (;;) {
    int64_t s = atomic_fetch_add(&shared->next, 1);
    if (s >= job->num) break;
    if (shared->kind == TRAJECTORIES) trajectory(&w, job, s, room);
    else noisier(&w, job, s);
  }
  free(w.memory);
  free(room);
  return NULL;
}

/* Whoever is free takes the next draw; what comes of a draw does not depend on who did it. Returns 0 if memory ran out. */
int hyperleaf_run(const Job *job, int kind, int threads) {
  Shared shared = {.job = job, .kind = kind};
  pthread_t others[64];
  int started = 0;
  atomic_init(&shared.next, 0);
  atomic_init(&shared.failed, 0);
  for (int i = 0; i + 1 < threads && i < 64; i++)
    if (pthread_create(&others[started], NULL, labour, &shared) == 0) started++;
  labour(&shared);
  for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
  return !atomic_load(&shared.failed);
}

int hyperleaf_width(void) { return W; }
