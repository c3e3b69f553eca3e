/* Of Gaussian mixtures at many candidates: entropy, its slopes, and the continuous ranked probability score.

   The rules are those of mixture/entropy.py and mixture/densities.py. Means and variances are (s, m); W candidates at a time, one in
   each lane of a vector. */

#include "vectors.h"

#define PEAK 0.39894228040143267794 /* 1 / sqrt(2 pi) */
#define REACH 9.0
#define TINY 1e-300

typedef struct {
  int64_t num, candidates, nodes, threads;
  const double *weights, *means, *variances; /* (s), (s, m), (s, m) */
  double *entropy, *error;                   /* (m) */
  double *by_mean, *by_variance;             /* (s, m), or nothing */
} Entropy;

/* s means and inverse standard deviations of W candidates, side by side; lanes beyond repeat the last. */
static void read_lanes(const Entropy *t, int64_t first, vec *mean, vec *inverse, int *atom) {
  for (int k = 0; k < W; k++) atom[k] = 0;
  for (int64_t i = 0; i < t->num; i++)
    for (int64_t k = 0; k < W; k++) {
      int64_t at = i * t->candidates + (first + k < t->candidates ? first + k : t->candidates - 1);
      double variance = t->variances[at];
      mean[i][k] = t->means[at];
      inverse[i][k] = variance > 0.0 ? 1.0 / sqrt(variance) : 1.0;
      if (!(variance > 0.0) && t->weights[i] > 0.0) atom[k] = 1;
    }
}

/* Nodes c + a sinh(u), crowded where narrow components are; see mixture_entropy_with_error. */
static void place_nodes(const Entropy *t, int64_t nodes, const vec *mean, const vec *inverse, vec *node, vec *volume) {
  for (int k = 0; k < W; k++) {
    double top = 0.0, sum = 0.0, centre = 0.0, width = 0.0, low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < t->num; i++) {
      double peak = (t->weights[i] > TINY ? t->weights[i] : TINY) * inverse[i][k];
      top = peak > top ? peak : top;
    }
    for (int64_t i = 0; i < t->num; i++) {
      double peak = (t->weights[i] > TINY ? t->weights[i] : TINY) * inverse[i][k] / top, deviation = 1.0 / inverse[i][k];
      sum += peak * peak;
      centre += peak * peak * mean[i][k];
      if (t->weights[i] > 0.0) {
        double from = mean[i][k] - REACH * deviation, to = mean[i][k] + REACH * deviation;
        low = from < low ? from : low;
        high = to > high ? to : high;
      }
    }
    centre /= sum;
    for (int64_t i = 0; i < t->num; i++) {
      double peak = (t->weights[i] > TINY ? t->weights[i] : TINY) * inverse[i][k] / top, deviation = 1.0 / inverse[i][k];
      width += peak * peak / sum * ((mean[i][k] - centre) * (mean[i][k] - centre) + deviation * deviation);
    }
    width = sqrt(width);
    double first = asinh((low - centre) / width), last = asinh((high - centre) / width), step = (last - first) / nodes;
    for (int64_t j = 0; j < nodes; j++) {
      double rise = sinh(first + step * j);
      node[j][k] = centre + width * rise;
      volume[j][k] = step * width * sqrt(1.0 + rise * rise);
    }
  }
}

/* exp(-t^2 / 2), exactly as far as a double goes: 2^-1020 is nothing here */
HOT vec bell(vec t) { return power_of_two((-0.5 * LOG2E) * (t * t)); }

static int entropy_of_lanes(const void *task, int64_t part, void *room) {
  const Entropy *t = task;
  int64_t s = t->num, nodes = t->nodes, first = part * W;
  vec *mean = room, *inverse = mean + s, *node = inverse + s, *volume = node + nodes;
  int atom[W];
  double sums[W] = {0}, halves[W] = {0}, thirds[3][W] = {{0}}, mass[W] = {0};
  read_lanes(t, first, mean, inverse, atom);
  place_nodes(t, nodes, mean, inverse, node, volume);
  for (int64_t j = 0; j < nodes; j += 2) { /* two at a time, so that one exponential does not wait for the other */
    vec p = all(0.0), q = all(0.0), y = node[j], z = node[j + 1];
    for (int64_t i = 0; i < s; i++) {
      vec high = t->weights[i] * inverse[i];
      p += high * bell((y - mean[i]) * inverse[i]);
      q += high * bell((z - mean[i]) * inverse[i]);
    }
    for (int side = 0; side < 2; side++) {
      vec density = PEAK * (side ? q : p), here = volume[j + side];
      for (int k = 0; k < W; k++) {
        double value = -here[k] * density[k] * log(density[k] > TINY ? density[k] : TINY);
        sums[k] += value;
        if (side == 0) halves[k] += value;
        thirds[(j + side) % 3][k] += value;
        mass[k] += here[k] * density[k];
      }
      volume[j + side] = density * here; /* of which the slopes make use */
    }
  }
  for (int64_t k = 0; k < W && first + k < t->candidates; k++) {
    double off = 0.0;
    for (int r = 0; r < 3; r++) off = fabs(sums[k] - 3.0 * thirds[r][k]) > off ? fabs(sums[k] - 3.0 * thirds[r][k]) : off;
    double coarse = fabs(sums[k] - 2.0 * halves[k]);
    coarse = coarse > 0.01 * off ? coarse : 0.01 * off;
    t->entropy[first + k] = atom[k] ? -INFINITY : sums[k];
    t->error[first + k] = atom[k] ? 0.0 : coarse + fabs(mass[k] - 1.0);
  }
  return 1;
}

/* The entropy and its slopes in means and variances, nodes held fixed. */
static int slopes_of_lanes(const void *task, int64_t part, void *room) {
  const Entropy *t = task;
  int64_t s = t->num, nodes = t->nodes, first = part * W;
  vec *mean = room, *inverse = mean + s, *node = inverse + s, *volume = node + nodes;
  int atom[W];
  vec sum = all(0.0);
  read_lanes(t, first, mean, inverse, atom);
  place_nodes(t, nodes, mean, inverse, node, volume);
  for (int64_t j = 0; j < nodes; j++) {
    vec p = all(0.0);
    for (int64_t i = 0; i < s; i++) p += t->weights[i] * inverse[i] * bell((node[j] - mean[i]) * inverse[i]);
    p *= PEAK;
    for (int k = 0; k < W; k++) {
      double log_p = log(p[k] > TINY ? p[k] : TINY);
      sum[k] -= volume[j][k] * p[k] * log_p;
      volume[j][k] *= -(log_p + (p[k] > TINY ? 1.0 : 0.0)); /* the slope in p */
    }
  }
  for (int64_t i = 0; i < s; i++) {
    vec one = all(0.0), two = all(0.0);
    for (int64_t j = 0; j < nodes; j++) {
      vec off = (node[j] - mean[i]) * inverse[i], p = volume[j] * bell(off);
      one += p * off;
      two += p * (off * off - 1.0);
    }
    vec high = (PEAK * t->weights[i]) * (inverse[i] * inverse[i]);
    one *= high;
    two *= 0.5 * high * inverse[i];
    for (int64_t k = 0; k < W && first + k < t->candidates; k++) {
      t->by_mean[i * t->candidates + first + k] = atom[k] ? 0.0 : one[k];
      t->by_variance[i * t->candidates + first + k] = atom[k] ? 0.0 : two[k];
    }
  }
  for (int64_t k = 0; k < W && first + k < t->candidates; k++) t->entropy[first + k] = atom[k] ? -INFINITY : sum[k];
  return 1;
}

int hyperleaf_entropy(const Entropy *t) {
  int64_t room = (2 * t->num + 2 * t->nodes) * (int64_t)sizeof(vec);
  return share(t->by_mean ? slopes_of_lanes : entropy_of_lanes, t, (t->candidates + W - 1) / W, room, t->threads);
}

/* ---- entropy by panels between all points mu + k sd: for any set of widths, at the price of s^2 */

static const double KNOTS[] = {-9.0, -6.5, -4.5, -3.0, -1.5, 0.0, 1.5, 3.0, 4.5, 6.5, 9.0};
#define NUM_KNOTS 11
static const double ABSCISSAE[] = {0.14887433898163122, 0.43339539412924719, 0.67940956829902441, 0.86506336668898451, 0.97390652851717172};
static const double AREAS[] = {0.29552422471475287, 0.26926671930999636, 0.21908636251598204, 0.14945134915058059, 0.066671344308688138};

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int entropy_by_panels(const void *task, int64_t j, void *room) {
  const Entropy *t = task;
  int64_t s = t->num, edges = NUM_KNOTS * s;
  double *mean = room, *inverse = mean + s, *edge = inverse + s, sum = 0.0;
  int64_t heaviest = 0;
  t->error[j] = 0.0;
  for (int64_t i = 0; i < s; i++) {
    double variance = t->variances[i * t->candidates + j];
    mean[i] = t->means[i * t->candidates + j];
    inverse[i] = variance > 0.0 ? 1.0 / sqrt(variance) : 1.0;
    if (t->weights[i] > t->weights[heaviest]) heaviest = i;
    if (!(variance > 0.0) && t->weights[i] > 0.0) {
      t->entropy[j] = -INFINITY;
      return 1;
    }
  }
  for (int64_t i = 0; i < s; i++) {
    int64_t from = t->weights[i] > 0.0 ? i : heaviest;
    for (int k = 0; k < NUM_KNOTS; k++) edge[i * NUM_KNOTS + k] = mean[from] + KNOTS[k] / inverse[from];
  }
  qsort(edge, edges, sizeof(double), ascending);
  int filled = 0;
  vec node = all(0.0), area = all(0.0);
  for (int64_t e = 0; e + 1 < edges; e++) {
    double middle = 0.5 * (edge[e] + edge[e + 1]), radius = 0.5 * (edge[e + 1] - edge[e]);
    if (radius == 0.0 && e + 2 < edges) continue;
    for (int k = 0; k < 10; k++) {
      node[filled] = middle + (k < 5 ? -ABSCISSAE[k] : ABSCISSAE[k - 5]) * radius;
      area[filled++] = AREAS[k % 5] * radius;
      if (filled < W && !(e + 2 == edges && k == 9)) continue;
      vec p = all(0.0);
      for (int64_t i = 0; i < s; i++) p += (t->weights[i] * inverse[i]) * bell((node - mean[i]) * inverse[i]);
      p *= PEAK;
      for (int l = 0; l < filled; l++) sum -= area[l] * p[l] * log(p[l] > TINY ? p[l] : TINY);
      filled = 0;
    }
  }
  t->entropy[j] = sum;
  return 1;
}

int hyperleaf_entropy_by_panels(const Entropy *t) {
  return share(entropy_by_panels, t, t->candidates, (2 + NUM_KNOTS) * t->num * (int64_t)sizeof(double), t->threads);
}

/* ---- CRPS: E|Y - y| - E|Y - Y'| / 2, the second by E|Y - Y'| = 2 * integral of F (1 - F) */

typedef struct {
  int64_t num, candidates, rows, nodes, threads;
  const double *weights, *means, *variances, *y; /* (s), (s, m), (s, m), (k, m) */
  double *value, *error;                         /* (k, m), (m) */
} Score;

/* The upper tail of the normal distribution, 1 - Phi(|x|): with z = |x| / sqrt 2 and t = 2 / (2 + z), exp(-z^2) t times a polynomial in
   2t - 1, which interpolates erfc(z) exp(z^2) / t at Chebyshev's points; within 5e-15 of it. */
static const double TAIL[] = {
    0x1.058671b52c772p-1, 0x1.5fd386754eff8p-2, 0x1.1e2deea6b163dp-3, 0x1.2a88e6107e90cp-6, -0x1.606e41562490ap-7,
    -0x1.a89eaffb50faap-9, 0x1.9517bbf62fef7p-10, 0x1.b6fbfa56a9700p-12, -0x1.5ba4499aa26ecp-12, -0x1.20540093a5eecp-16,
    0x1.2efb6a941ec16p-14, -0x1.1e78aad7d4febp-16, -0x1.6c1c2e984a806p-17, 0x1.0e9055fbd57b2p-17, -0x1.2bb646d03815cp-21,
    -0x1.eb29062de189ep-20, 0x1.0c8cee7442ec2p-20, 0x1.70628c6eb301cp-27, -0x1.3d01a7c3876f0p-22, 0x1.47a6b414af471p-23,
    0x1.0e80f26d51d53p-26, -0x1.c1ca664d72c42p-25, 0x1.e55bac168f8fep-27, 0x1.cd996c2af05dcp-28, -0x1.b27247aff1494p-29};

HOT vec upper_tail(vec x) {
  vec z = larger(x, -x) * 0.70710678118654752440, t = 2.0 / (2.0 + z), u = 2.0 * t - 1.0, s = all(TAIL[24]);
  for (int i = 23; i >= 0; i--) s = s * u + TAIL[i];
  return 0.5 * t * s * power_of_two(-LOG2E * (z * z));
}

/* E|N(off, variance)|; the deviation is given too, with its inverse, which is 0 for a point mass */
HOT vec absolute(vec off, vec deviation, vec inverse) {
  vec z = off * inverse, size = larger(off, -off);
  vec smooth = size * (1.0 - 2.0 * upper_tail(z)) + 2.0 * PEAK * deviation * bell(z);
  whole point = inverse == all(0.0);
  return (vec)((point & (whole)size) | (~point & (whole)smooth));
}

static int score_lanes(const void *task, int64_t part, void *room) {
  const Score *t = task;
  Entropy e = {.num = t->num, .candidates = t->candidates, .weights = t->weights, .means = t->means, .variances = t->variances};
  int64_t s = t->num, first = part * W, nodes = t->nodes;
  vec *mean = room, *inverse = mean + s, *node = inverse + s, *volume = node + nodes, *variance = volume + nodes, between = all(0.0), half = all(0.0);
  int atom[W];
  read_lanes(&e, first, mean, inverse, atom);
  if (nodes) {
    place_nodes(&e, nodes, mean, inverse, node, volume);
    for (int64_t j = 0; j < nodes; j++) {
      vec below = all(0.0), above = all(0.0);
      for (int64_t i = 0; i < s; i++) {
        vec off = (node[j] - mean[i]) * inverse[i], tail = t->weights[i] * upper_tail(off), rest = t->weights[i] - tail;
        whole left = off < all(0.0);
        below += (vec)((left & (whole)tail) | (~left & (whole)rest));
        above += (vec)((left & (whole)rest) | (~left & (whole)tail));
      }
      vec here = volume[j] * below * above;
      between += here;
      if (j % 2 == 0) half += here;
    }
  }
  for (int64_t i = 0; i < s; i++) { /* from here on point masses are points */
    for (int k = 0; k < W; k++) {
      int64_t at = i * t->candidates + (first + k < t->candidates ? first + k : t->candidates - 1);
      variance[i][k] = t->variances[at];
      if (!(t->variances[at] > 0.0)) inverse[i][k] = 0.0;
    }
  }
  if (!nodes)
    for (int64_t i = 0; i < s; i++) {
      vec own = all(0.0);
      for (int64_t j = 0; j <= i; j++) {
        vec deviation = root_of(variance[i] + variance[j]);
        whole point = deviation == all(0.0);
        vec back = (vec)(~point & (whole)(1.0 / deviation));
        own += (j < i ? t->weights[j] : 0.5 * t->weights[j]) * absolute(mean[i] - mean[j], deviation, back);
      }
      between += t->weights[i] * own;
    }
  for (int64_t k = 0; k < W && first + k < t->candidates; k++)
    t->error[first + k] = !nodes ? 0.0 : atom[k] ? INFINITY : fabs(between[k] - 2.0 * half[k]);
  for (int64_t r = 0; r < t->rows; r++) {
    vec y = all(0.0), sum = all(0.0);
    for (int k = 0; k < W; k++) y[k] = t->y[r * t->candidates + (first + k < t->candidates ? first + k : t->candidates - 1)];
    for (int64_t i = 0; i < s; i++) {
      vec deviation;
      whole point = inverse[i] == all(0.0);
      deviation = (vec)(~point & (whole)(1.0 / inverse[i]));
      sum += t->weights[i] * absolute(y - mean[i], deviation, inverse[i]);
    }
    sum -= between;
    for (int64_t k = 0; k < W && first + k < t->candidates; k++) t->value[r * t->candidates + first + k] = sum[k];
  }
  return 1;
}

/* By `nodes` nodes, or exactly, at the price of s^2, if there are none. */
int hyperleaf_score(const Score *t) {
  int64_t room = (3 * t->num + 2 * t->nodes) * (int64_t)sizeof(vec);
  return share(score_lanes, t, (t->candidates + W - 1) / W, room, t->threads);
}
