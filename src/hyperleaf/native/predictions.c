/* What is done with draws whose data are given: factors, factors that grow, predictions, their slopes, and covariances with references.

   Factors come and go as L by rows, as JAX has them. k(X, x) and L^-1 k(X, x) stand in panels: one row for each observation, one
   column for each candidate, PANEL vectors wide. Forward substitution goes block by block of R observations, in one and the same
   order whether it begins with the first observation or goes on where it stopped; so what has grown and what is computed anew are
   equal to the last bit. */

#include "core.c"

#define WIDE (PANEL * W)
#define MAX_RELATIVE_JITTER 1e-4
#define TRIVIAL 1e-14 /* of its prior variance: no observation is known better than that */

typedef struct {
  int64_t n, d, leaves;
  double *x, *weight, *most; /* (d, n), (leaves, n), (leaves, n / PAD) */
} Points;

typedef struct {
  const Model *model;
  int64_t num, count, size;         /* draws; observations; rows of a factor */
  const double *z, *x, *y, *noise;  /* (num, p), (count, d), (count), (count) */
  const double *factor, *whitened;  /* (num, size, size), (num, size) */
  int64_t threads;
} Draws;

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by * by; }

static void values_of(const Model *m, const double *z, double *value) {
  for (int64_t i = 0; i < slots(m); i++) {
    int64_t at = m->place[i];
    value[i] = at < 0 ? m->fixed[i] : m->is_log[at] ? exp(z[at]) : z[at];
  }
}

/* A piece of the room of a thread; everything in it begins with a cache line. */
HOT double *take(double **room, int64_t size) {
  double *here = *room;
  *room += up(size, 8);
  return here;
}

static Points take_points(double **room, const Model *m, int64_t n) {
  Points p = {.n = up(up(n, WIDE), PAD), .d = m->d, .leaves = m->leaves};
  p.x = take(room, p.d * p.n);
  p.weight = take(room, p.leaves * p.n);
  p.most = take(room, p.leaves * (p.n / PAD));
  return p;
}

static int64_t points_size(const Model *m, int64_t n) {
  n = up(up(n, WIDE), PAD);
  return up(m->d * n, 8) + up(m->leaves * n, 8) + up(m->leaves * (n / PAD), 8);
}

/* Coordinates into columns; what is beyond stands in the middle, without weight. */
static void place_points(Points *p, const double *x, int64_t count) {
  for (int64_t c = 0; c < p->d; c++)
    for (int64_t i = 0; i < p->n; i++) p->x[c * p->n + i] = i < count ? x[i * p->d + c] : 0.5;
}

/* sqrt(variance) times the weight of each leaf; a side of a gate is opened once for all leaves below it. */
static void weigh(Points *p, const Model *m, const double *value, int64_t count) {
  int64_t d = m->d, g = m->gates, n = p->n;
  const double *offset = value, *normal = offset + g, *steepness = normal + g * d, *lengthscale = steepness + g;
  const double *variance = lengthscale + m->leaves * d;
  for (int64_t i = 0; i < n; i += W) {
    for (int64_t j = 0; j < m->leaves; j++) store(p->weight + j * n + i, all(1.0));
    for (int64_t k = 0; k < g; k++) {
      vec t = all(offset[k]);
      for (int64_t c = 0; c < d; c++) t += normal[k * d + c] * load(p->x + c * n + i);
      t *= steepness[k];
      vec e = power_of_two(-LOG2E * larger(t, -t)), one = 1.0 / (1.0 + e), other = e * one;
      whole right = t < all(0.0);
      vec open = (vec)((right & (whole)other) | (~right & (whole)one)), shut = (vec)((right & (whole)one) | (~right & (whole)other));
      for (int64_t j = 0; j < m->leaves; j++) {
        int64_t side = m->path[j * g + k];
        if (side) store(p->weight + j * n + i, load(p->weight + j * n + i) * (side > 0 ? open : shut));
      }
    }
    for (int64_t j = 0; j < m->leaves; j++) {
      vec t = load(p->weight + j * n + i);
      store(p->weight + j * n + i, sqrt(variance[j]) * (m->root ? root_of(t) : t));
    }
  }
  for (int64_t j = 0; j < m->leaves; j++) {
    for (int64_t i = count; i < n; i++) p->weight[j * n + i] = 0.0;
    for (int64_t i = 0; i < n; i += PAD) {
      double most = 0.0;
      for (int64_t k = i; k < i + PAD; k++) most = p->weight[j * n + k] > most ? p->weight[j * n + k] : most;
      p->most[j * (n / PAD) + i / PAD] = most;
    }
  }
}

static double most_of(const Points *p, int64_t leaf, int64_t from, int64_t to) {
  double most = 0.0;
  for (int64_t i = from / PAD; i < (to + PAD - 1) / PAD; i++) {
    double here = p->most[leaf * (p->n / PAD) + i];
    most = here > most ? here : most;
  }
  return most;
}

/* The weight below which a product adds nothing: relative to the largest variance of the observations. */
static double least_of(const Points *p) {
  double largest = 0.0;
  for (int64_t j = 0; j < p->leaves; j++) {
    double most = most_of(p, j, 0, p->n);
    largest = most * most > largest ? most * most : largest;
  }
  return SHUT * largest;
}

/* sqrt of the prior variance at each point, squared: the diagonal of the kernel with its trend */
static void diagonal_of(const Points *p, const Model *m, int64_t count, double *out) {
  for (int64_t i = 0; i < count; i++) {
    double s = 0.0, t = m->trend ? 1.0 : 0.0;
    for (int64_t j = 0; j < m->leaves; j++) s += p->weight[j * p->n + i] * p->weight[j * p->n + i];
    for (int64_t c = 0; m->trend == 2 && c < m->d; c++) t += (p->x[c * p->n + i] - 0.5) * (p->x[c * p->n + i] - 0.5);
    out[i] = s + m->trend_variance * t;
  }
}

static double mean_variance(const Points *p, const Model *m, int64_t count, double *room) {
  double sum = 0.0;
  diagonal_of(p, m, count, room);
  for (int64_t i = 0; i < count; i++) sum += room[i];
  return count ? sum / count : 0.0;
}

/* Covariances of rows [i, i + R) of one set with columns [j, j + WIDE) of another. Rows from `count` on are zero. */
HOT void cross(vec k[R][PANEL], const Points *a, int64_t i, const Points *b, int64_t j, const Model *m, const double *scale,
               double least, int64_t count, const int64_t d, const int kind) {
  for (int r = 0; r < R; r++)
    for (int c = 0; c < PANEL; c++) k[r][c] = all(0.0);
  for (int64_t leaf = 0; leaf < m->leaves; leaf++) {
    const double *wa = a->weight + leaf * a->n + i, *wb = b->weight + leaf * b->n + j, *s = scale + leaf * d;
    if (a->most[leaf * (a->n / PAD) + i / PAD] * most_of(b, leaf, j, j + WIDE) < least) continue;
    for (int r = 0; r < R; r++)
      for (int c = 0; c < PANEL; c++) {
        vec t = a->x[i + r] - load(b->x + j + c * W), q = s[0] * (t * t), phi, slope = all(0.0);
        for (int64_t e = 1; e < d; e++) {
          t = a->x[e * a->n + i + r] - load(b->x + e * b->n + j + c * W);
          q += s[e] * (t * t);
        }
        profile_of(q, &phi, &slope, kind);
        k[r][c] += (wa[r] * load(wb + c * W)) * phi;
      }
  }
  if (m->trend)
    for (int r = 0; r < R; r++)
      for (int c = 0; c < PANEL; c++) {
        vec t = all(1.0);
        for (int64_t e = 0; m->trend == 2 && e < d; e++) t += (a->x[e * a->n + i + r] - 0.5) * (load(b->x + e * b->n + j + c * W) - 0.5);
        k[r][c] += m->trend_variance * t;
      }
  for (int r = 0; r < R; r++)
    if (i + r >= count)
      for (int c = 0; c < PANEL; c++) k[r][c] = all(0.0);
}

static void cross_of(vec k[R][PANEL], const Points *a, int64_t i, const Points *b, int64_t j, const Model *m, const double *scale,
                     double least, int64_t count) {
  cross(k, a, i, b, j, m, scale, least, count, DIMS, KIND);
}

/* One draw with its data, and a panel of candidates */
typedef struct {
  Points data, here;
  double *value, *scale, *inverse, *some; /* (slots), (leaves, d), (size), (at least WIDE) */
  const double *factor, *whitened;
  int64_t size;
  double least;
} Draw;

static int64_t draw_size(const Draws *g) {
  const Model *m = g->model;
  return up(slots(m), 8) + up(m->leaves * m->d, 8) + 2 * up(up(g->count, WIDE), 8) + points_size(m, g->count) + points_size(m, WIDE);
}

static Draw take_draw(double **room, const Draws *g, int64_t s) {
  const Model *m = g->model;
  Draw w = {.factor = g->factor + s * g->size * g->size, .whitened = g->whitened + s * g->size, .size = g->size};
  w.value = take(room, slots(m));
  w.scale = take(room, m->leaves * m->d);
  w.inverse = take(room, up(g->count, WIDE));
  w.some = take(room, up(g->count, WIDE));
  w.data = take_points(room, m, g->count);
  w.here = take_points(room, m, WIDE);
  values_of(m, g->z + s * m->size, w.value);
  const double *lengthscale = w.value + m->gates * (m->d + 2);
  for (int64_t i = 0; i < m->leaves * m->d; i++) w.scale[i] = 1.0 / (lengthscale[i] * lengthscale[i]);
  place_points(&w.data, g->x, g->count);
  weigh(&w.data, m, w.value, g->count);
  w.least = least_of(&w.data);
  for (int64_t i = 0; i < up(g->count, R); i++) w.inverse[i] = i < g->count ? 1.0 / w.factor[i * w.size + i] : 1.0;
  return w;
}

/* Rows [i, i + R) of X = L^-1 k, from k in these rows of the panel and X above them. Never inlined: both ways to it are one code. */
static __attribute__((noinline)) void substitute_rows(double *x, const Draw *w, int64_t i, int64_t count) {
  vec s[R][PANEL];
  const double *row[R];
  for (int r = 0; r < R; r++) {
    row[r] = w->factor + (i + r < count ? i + r : i) * w->size; /* a row beyond has no covariances; its numbers are made zero */
    for (int c = 0; c < PANEL; c++) s[r][c] = all(0.0);
  }
  for (int64_t k = 0; k < i; k++) {
    vec column[PANEL];
    for (int c = 0; c < PANEL; c++) column[c] = load(x + k * WIDE + c * W);
    for (int r = 0; r < R; r++)
      for (int c = 0; c < PANEL; c++) s[r][c] += row[r][k] * column[c];
  }
  for (int r = 0; r < R; r++)
    for (int c = 0; c < PANEL; c++) {
      vec t = load(x + (i + r) * WIDE + c * W) - s[r][c];
      for (int k = 0; k < r; k++) t -= row[r][i + k] * load(x + (i + k) * WIDE + c * W);
      store(x + (i + r) * WIDE + c * W, t * (i + r < count ? w->inverse[i + r] : 0.0));
    }
}

/* Observations from block `from` on; sums holds the mean and the sum of squares, `stop` takes them as they are before a block
   that is not full. */
static void solve(double *x, double *sums, double *stop, const Draw *w, const Model *m, int64_t from, int64_t count) {
  for (int64_t i = from; i < count; i += R) {
    vec k[R][PANEL];
    if (stop && i + R > count) memcpy(stop, sums, sizeof(double) * 2 * WIDE);
    cross_of(k, &w->data, i, &w->here, 0, m, w->scale, w->least, count);
    for (int r = 0; r < R; r++)
      for (int c = 0; c < PANEL; c++) store(x + (i + r) * WIDE + c * W, k[r][c]);
    substitute_rows(x, w, i, count);
    for (int c = 0; c < PANEL; c++) {
      vec mean = load(sums + c * W), squares = load(sums + WIDE + c * W);
      for (int r = 0; r < R && i + r < count; r++) {
        vec t = load(x + (i + r) * WIDE + c * W);
        mean += w->whitened[i + r] * t;
        squares += t * t;
      }
      store(sums + c * W, mean);
      store(sums + WIDE + c * W, squares);
    }
  }
  if (stop && count % R == 0) memcpy(stop, sums, sizeof(double) * 2 * WIDE);
}

static void come_to(Draw *w, const Model *m, const double *at, int64_t j, int64_t points) {
  int64_t here = points - j < WIDE ? points - j : WIDE;
  place_points(&w->here, at + j * m->d, here);
  weigh(&w->here, m, w->value, here);
}

/* ---- factors */

typedef struct {
  Draws draws;
  double *factor, *whitened, *jitter; /* (num, size, size), (num, size), (num) */
  Target target;
} Settling;

static int settle_one(const void *task, int64_t s, void *room) {
  const Settling *t = task;
  const Draws *g = &t->draws;
  const Model *m = g->model;
  int64_t count = g->count, size = g->size;
  double *factor = t->factor + s * size * size, *whitened = t->whitened + s * size, *jitter = t->jitter + s;
  Work w;
  (void)room;
  if (!make(&w, m, count, 0)) return 0;
  for (int64_t c = 0; c < m->d; c++)
    for (int64_t i = 0; i < w.n; i++) w.xs[c * w.n + i] = i < count ? g->x[i * m->d + c] : 0.5;
  prepare(&w, m, g->z + s * m->size, count);
  double scale = 0.0;
  int found = 0;
  for (*jitter = 0.0;;) {
    covariance(&w, m, &t->target, count, 0);
    if (*jitter == 0.0) {
      double own = w.value[noise_slot(m)];
      for (int64_t i = 0; i < count; i++) scale += w.k[i * w.ld + i] - (m->by_leaf ? w.own[i] : own) - g->noise[i];
      scale /= (count ? count : 1) * (1.0 + RELATIVE_JITTER);
    }
    for (int64_t i = 0; i < count; i++) w.k[i * w.ld + i] += *jitter;
    found = factorise(w.k, w.n, w.ld, w.inverse);
    if (found || !(*jitter < 0.5 * MAX_RELATIVE_JITTER * scale)) break;
    *jitter = 10.0 * *jitter > RELATIVE_JITTER * scale ? 10.0 * *jitter : RELATIVE_JITTER * scale;
  }
  take_outputs(&w, &t->target, count);
  if (found) whiten(&w, w.n);
  for (int64_t i = 0; i < size; i++) {
    double *row = factor + i * size;
    memset(row, 0, sizeof(double) * size);
    if (i >= count) row[i] = 1.0, whitened[i] = 0.0;
    else if (found) {
      for (int64_t k = 0; k <= i; k++) row[k] = w.k[k * w.ld + i];
      whitened[i] = w.white[i];
    } else {
      for (int64_t k = 0; k <= i; k++) row[k] = NAN;
      whitened[i] = NAN;
    }
  }
  free(w.memory);
  return 1;
}

int hyperleaf_settle(const Settling *t) { return share(settle_one, t, t->draws.num, 64, t->draws.threads); }

/* ---- factors that grow: draws.count observations were known, `more` follow in x, y and noise */

typedef struct {
  Draws draws;
  int64_t more, size;              /* the new number of rows of a factor */
  double *factor, *whitened, *gained; /* (num, size, size), (num, size), (num): the log predictive density */
} Growing;

static int grow_one(const void *task, int64_t s, void *room) {
  const Growing *t = task;
  Draws g = t->draws;
  const Model *m = g.model;
  int64_t known = g.count, before = g.size, size = t->size;
  double *factor = t->factor + s * size * size, *whitened = t->whitened + s * size, diagonal[1];
  for (int64_t i = 0; i < size; i++) {
    memset(factor + i * size, 0, sizeof(double) * size);
    if (i < before) memcpy(factor + i * size, g.factor + (s * before + i) * before, sizeof(double) * before);
    else factor[i * size + i] = 1.0;
    whitened[i] = i < before ? g.whitened[s * before + i] : 0.0;
  }
  t->gained[s] = 0.0;
  g.size = size, g.factor = t->factor, g.whitened = t->whitened;
  for (int64_t i = known; i < known + t->more; i++) {
    double *free_room = room, sums[2 * WIDE] __attribute__((aligned(64)));
    g.count = i;
    Draw w = take_draw(&free_room, &g, s);
    double *x = take(&free_room, up(i, R) * WIDE);
    memset(sums, 0, sizeof sums);
    come_to(&w, m, g.x + i * m->d, 0, 1);
    solve(x, sums, NULL, &w, m, 0, i);
    diagonal_of(&w.here, m, 1, diagonal);
    double prior = diagonal[0] + noise_at(m, w.value, g.x + i * m->d) + g.noise[i] + RELATIVE_JITTER * mean_variance(&w.data, m, i, w.some);
    double variance = prior - sums[WIDE];
    variance = variance > TRIVIAL * prior || isnan(variance) ? variance : TRIVIAL * prior;
    double deviation = sqrt(variance), residual = (g.y[i] - sums[0]) / deviation;
    for (int64_t k = 0; k < i; k++) factor[i * size + k] = x[k * WIDE];
    factor[i * size + i] = deviation;
    whitened[i] = residual;
    t->gained[s] += -0.5 * residual * residual - 0.5 * log(2.0 * M_PI * variance);
  }
  return 1;
}

int hyperleaf_grow(const Growing *t) {
  Draws most = t->draws;
  most.count += t->more;
  int64_t room = draw_size(&most) + up(most.count, R) * WIDE + 64;
  return share(grow_one, t, most.num, room * 8, most.threads);
}

/* ---- predictions */

typedef struct {
  Draws draws;
  int64_t points, from, rows; /* candidates; observations that `kept` knows; rows for which it has room, 0 if it is not there */
  const double *at;           /* (points, d) */
  double *mean, *variance;    /* (num, points) */
  double *kept, *sums;        /* (num, panels, rows, WIDE), (num, panels, 2, WIDE) */
} Predicting;

static int predict_one(const void *task, int64_t s, void *given) {
  const Predicting *t = task;
  const Draws *g = &t->draws;
  const Model *m = g->model;
  double *room = given, sums[2 * WIDE] __attribute__((aligned(64))), diagonal[WIDE];
  Draw w = take_draw(&room, g, s);
  double *own = take(&room, up(g->count, R) * WIDE);
  int64_t panels = up(t->points, WIDE) / WIDE, from = t->from / R * R;
  for (int64_t p = 0; p < panels; p++) {
    double *x = t->rows ? t->kept + (s * panels + p) * t->rows * WIDE : own;
    double *stop = t->rows ? t->sums + (s * panels + p) * 2 * WIDE : NULL;
    if (from) memcpy(sums, stop, sizeof sums);
    else memset(sums, 0, sizeof sums);
    come_to(&w, m, t->at, p * WIDE, t->points);
    solve(x, sums, stop, &w, m, from, g->count);
    int64_t here = t->points - p * WIDE < WIDE ? t->points - p * WIDE : WIDE;
    diagonal_of(&w.here, m, here, diagonal);
    for (int64_t i = 0; i < here; i++) {
      double left = diagonal[i] - sums[WIDE + i];
      t->mean[s * t->points + p * WIDE + i] = sums[i];
      t->variance[s * t->points + p * WIDE + i] = left > 0.0 || isnan(left) ? left : 0.0;
    }
  }
  return 1;
}

int hyperleaf_predict(const Predicting *t) {
  int64_t room = draw_size(&t->draws) + up(t->draws.count, R) * WIDE + 64;
  return share(predict_one, t, t->draws.num, room * 8, t->draws.threads);
}

int64_t hyperleaf_wide(void) { return WIDE; }

/* ---- slopes of predictions in x */

typedef struct {
  Draws draws;
  int64_t points;
  const double *at;
  double *mean, *variance, *by_mean, *by_variance; /* (num, points), the same, (num, points, d), the same */
} Sloping;

/* For W candidates: of both coefficients a (of the mean) and b (of the variance) of all observations, sums over k and its slopes. */
HOT void slopes(const Draw *w, const Model *m, int64_t count, int64_t j, const double *a, const double *b, vec *of_mean,
                vec *of_variance, const int64_t d, const int kind) {
  const Points *data = &w->data, *here = &w->here;
  const double *normal = w->value + m->gates, *steepness = normal + m->gates * d;
  for (int64_t c = 0; c < d; c++) of_mean[c] = of_variance[c] = all(0.0);
  for (int64_t leaf = 0; leaf < m->leaves; leaf++) {
    vec weight = load(here->weight + leaf * here->n + j), first = all(0.0), second = all(0.0), pull[2][MAX_DIMS];
    const double *s = w->scale + leaf * d;
    for (int64_t c = 0; c < d; c++) pull[0][c] = pull[1][c] = all(0.0);
    for (int64_t i = 0; i < count; i++) {
      vec q = all(0.0), phi, slope = all(0.0), t[MAX_DIMS];
      for (int64_t c = 0; c < d; c++) {
        t[c] = load(here->x + c * here->n + j) - data->x[c * data->n + i];
        q += s[c] * (t[c] * t[c]);
      }
      profile_of(q, &phi, &slope, kind);
      if (kind == RBF) slope = -0.5 * phi;
      double there = data->weight[leaf * data->n + i];
      vec u = all(a[i] * there), v = there * load(b + i * WIDE + j);
      first += u * phi;
      second += v * phi;
      for (int64_t c = 0; c < d; c++) {
        pull[0][c] += (u * slope) * t[c];
        pull[1][c] += (v * slope) * t[c];
      }
    }
    for (int64_t c = 0; c < d; c++) {
      vec own = all(0.0); /* the slope of the weight, relative to it */
      for (int64_t k = 0; k < m->gates; k++) {
        int64_t side = m->path[leaf * m->gates + k];
        if (!side) continue;
        vec t = all(w->value[k]);
        for (int64_t e = 0; e < d; e++) t += normal[k * d + e] * load(here->x + e * here->n + j);
        t *= steepness[k] * side;
        vec e = power_of_two(-LOG2E * larger(t, -t)), one = 1.0 / (1.0 + e);
        whole open = t > all(0.0);
        vec rest = (vec)((open & (whole)(e * one)) | (~open & (whole)one));
        own += (side * steepness[k] * normal[k * d + c]) * rest;
      }
      if (m->root) own *= 0.5;
      of_mean[c] += weight * (own * first + 2.0 * s[c] * pull[0][c]);
      of_variance[c] += weight * (2.0 * own * weight - 2.0 * (own * second + 2.0 * s[c] * pull[1][c]));
    }
  }
  for (int64_t c = 0; m->trend == 2 && c < d; c++) {
    vec second = all(0.0);
    double first = 0.0;
    for (int64_t i = 0; i < count; i++) {
      first += a[i] * (data->x[c * data->n + i] - 0.5);
      second += (data->x[c * data->n + i] - 0.5) * load(b + i * WIDE + j);
    }
    of_mean[c] += m->trend_variance * first;
    of_variance[c] += 2.0 * m->trend_variance * (load(here->x + c * here->n + j) - 0.5 - second);
  }
}

static int slope_one(const void *task, int64_t s, void *given) {
  const Sloping *t = task;
  const Draws *g = &t->draws;
  const Model *m = g->model;
  int64_t d = m->d, n = g->count;
  double *room = given, sums[2 * WIDE] __attribute__((aligned(64))), diagonal[WIDE];
  Draw w = take_draw(&room, g, s);
  double *x = take(&room, up(n, R) * WIDE), *a = take(&room, n);
  memcpy(a, w.whitened, sizeof(double) * n);
  for (int64_t i = n - 1; i >= 0; i--) {
    a[i] *= w.inverse[i];
    for (int64_t k = 0; k < i; k++) a[k] -= w.factor[i * w.size + k] * a[i];
  }
  for (int64_t p = 0; p < t->points; p += WIDE) {
    int64_t here = t->points - p < WIDE ? t->points - p : WIDE;
    memset(sums, 0, sizeof sums);
    come_to(&w, m, t->at, p, t->points);
    solve(x, sums, NULL, &w, m, 0, n);
    diagonal_of(&w.here, m, here, diagonal);
    for (int64_t i = n - 1; i >= 0; i--) { /* K^-1 k in the place of L^-1 k */
      vec row[PANEL];
      for (int c = 0; c < PANEL; c++) {
        row[c] = load(x + i * WIDE + c * W) * w.inverse[i];
        store(x + i * WIDE + c * W, row[c]);
      }
      for (int64_t k = 0; k < i; k++)
        for (int c = 0; c < PANEL; c++)
          store(x + k * WIDE + c * W, load(x + k * WIDE + c * W) - w.factor[i * w.size + k] * row[c]);
    }
    for (int64_t j = 0; j < here; j += W) {
      vec of_mean[MAX_DIMS], of_variance[MAX_DIMS];
      slopes(&w, m, n, j, a, x, of_mean, of_variance, DIMS, KIND);
      for (int64_t i = 0; i < W && j + i < here; i++) {
        int64_t at = s * t->points + p + j + i;
        double left = diagonal[j + i] - sums[WIDE + j + i];
        t->mean[at] = sums[j + i];
        t->variance[at] = left > 0.0 || isnan(left) ? left : 0.0;
        for (int64_t c = 0; c < d; c++) {
          t->by_mean[at * d + c] = of_mean[c][i];
          t->by_variance[at * d + c] = left > 0.0 ? of_variance[c][i] : 0.0;
        }
      }
    }
  }
  return 1;
}

int hyperleaf_slope(const Sloping *t) {
  int64_t room = draw_size(&t->draws) + up(t->draws.count, R) * WIDE + up(t->draws.count, 8) + 64;
  return share(slope_one, t, t->draws.num, room * 8, t->draws.threads);
}

/* ---- covariances with references, or what a criterion makes of them */

enum { COVARIANCES, SQUARES, INFORMATION };
#define TOGETHER 16 /* factors that are multiplied before the logarithm is taken: each is at least 1e-12 */

typedef struct {
  Draws draws;
  int64_t points, references, kind;
  const double *at, *at_references;                 /* (points, d), (references, d) */
  const double *noise, *noise_r;                    /* (num, points), (num, references): of an observation */
  double least;                                     /* added to variances, and the least 1 - rho^2 */
  double *mean, *variance, *mean_r, *variance_r;    /* (num, points) and (num, references) */
  double *result; /* (num, points, references), or (num, points): the mean of c^2, or of -ln(1 - rho^2) / 2, over references */
} Joining;

static int join_one(const void *task, int64_t s, void *given) {
  const Joining *t = task;
  const Draws *g = &t->draws;
  const Model *m = g->model;
  int64_t n = g->count, panels = up(t->references, WIDE) / WIDE, rows = up(n, R);
  double *room = given, sums[2 * WIDE] __attribute__((aligned(64))), diagonal[WIDE];
  Draw w = take_draw(&room, g, s);
  double *x = take(&room, rows * WIDE), *there = take(&room, panels * rows * WIDE), *far = take(&room, panels * WIDE);
  Points r = take_points(&room, m, t->references);
  for (int64_t p = 0; p < panels; p++) {
    int64_t here = t->references - p * WIDE < WIDE ? t->references - p * WIDE : WIDE;
    memset(sums, 0, sizeof sums);
    come_to(&w, m, t->at_references, p * WIDE, t->references);
    solve(there + p * rows * WIDE, sums, NULL, &w, m, 0, n);
    diagonal_of(&w.here, m, here, diagonal);
    for (int64_t i = 0; i < WIDE; i++) {
      double left = i < here ? diagonal[i] - sums[WIDE + i] : 1.0;
      left = left > 0.0 || isnan(left) ? left : 0.0;
      if (i < here) t->mean_r[s * t->references + p * WIDE + i] = sums[i], t->variance_r[s * t->references + p * WIDE + i] = left;
      double own = t->noise_r && i < here ? t->noise_r[s * t->references + p * WIDE + i] : 0.0;
      far[p * WIDE + i] = 1.0 / (left + own + t->least);
    }
  }
  place_points(&r, t->at_references, t->references);
  weigh(&r, m, w.value, t->references);
  for (int64_t p = 0; p < t->points; p += WIDE) {
    int64_t here = t->points - p < WIDE ? t->points - p : WIDE;
    double near[WIDE];
    memset(sums, 0, sizeof sums);
    come_to(&w, m, t->at, p, t->points);
    solve(x, sums, NULL, &w, m, 0, n);
    diagonal_of(&w.here, m, here, diagonal);
    for (int64_t i = 0; i < here; i++) {
      double left = diagonal[i] - sums[WIDE + i];
      left = left > 0.0 || isnan(left) ? left : 0.0;
      t->mean[s * t->points + p + i] = sums[i];
      t->variance[s * t->points + p + i] = left;
      near[i] = 1.0 / (left + (t->noise ? t->noise[s * t->points + p + i] : 0.0) + t->least);
    }
    for (int64_t i = 0; i < here; i += R) {
      vec gathered[R], product[R];
      for (int a = 0; a < R; a++) gathered[a] = all(0.0), product[a] = all(1.0);
      for (int64_t q = 0; q < panels; q++) {
        vec c[R][PANEL];
        const double *b = there + q * rows * WIDE;
        cross_of(c, &w.here, i, &r, q * WIDE, m, w.scale, w.least, here);
        vec sum[R][PANEL];
        for (int a = 0; a < R; a++)
          for (int e = 0; e < PANEL; e++) sum[a][e] = all(0.0);
        for (int64_t k = 0; k < n; k++) {
          vec column[PANEL];
          for (int e = 0; e < PANEL; e++) column[e] = load(b + k * WIDE + e * W);
          for (int a = 0; a < R; a++)
            for (int e = 0; e < PANEL; e++) sum[a][e] += x[k * WIDE + i + a] * column[e];
        }
        for (int a = 0; a < R && i + a < here; a++)
          for (int e = 0; e < PANEL; e++) {
            int64_t at = q * WIDE + e * W, left = t->references - at;
            vec value = c[a][e] - sum[a][e];
            if (left <= 0) continue;
            if (t->kind == COVARIANCES) {
              double *out = t->result + (s * t->points + p + i + a) * t->references + at;
              for (int64_t k = 0; k < W && k < left; k++) out[k] = value[k];
              continue;
            }
            value *= value;
            for (int64_t k = left; k < W; k++) value[k] = 0.0;
            if (t->kind == SQUARES) gathered[a] += value;
            else product[a] *= larger(1.0 - value * (near[i + a] * load(far + at)), all(t->least));
          }
        if (t->kind == INFORMATION && (q % (TOGETHER / PANEL) == TOGETHER / PANEL - 1 || q + 1 == panels))
          for (int a = 0; a < R && i + a < here; a++) {
            for (int k = 0; k < W; k++) gathered[a][k] -= 0.5 * log(product[a][k]);
            product[a] = all(1.0);
          }
      }
      if (t->kind != COVARIANCES)
        for (int a = 0; a < R && i + a < here; a++) t->result[s * t->points + p + i + a] = total(gathered[a]) / t->references;
    }
  }
  return 1;
}

int hyperleaf_join(const Joining *t) {
  int64_t n = up(t->draws.count, R), panels = up(t->references, WIDE) / WIDE;
  int64_t room = draw_size(&t->draws) + n * WIDE + panels * n * WIDE + panels * WIDE + points_size(t->draws.model, t->references) + 128;
  return share(join_one, t, t->draws.num, room * 8, t->draws.threads);
}
