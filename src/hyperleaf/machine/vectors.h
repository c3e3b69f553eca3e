/* Vectors of the processor, and what all sources do with them. */

#ifndef HYPERLEAF_VECTORS_H
#define HYPERLEAF_VECTORS_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define W 8
#define R 8
#define PANEL 3
#elif defined(__AVX__)
#define W 4
#define R 4
#define PANEL 2
#else
#define W 2
#define R 4
#define PANEL 2
#endif
#define HOT static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(W * 8), may_alias));
typedef int64_t whole __attribute__((vector_size(W * 8), may_alias));

HOT vec all(double a) { return a - (vec){0}; }
HOT vec load(const double *p) { return *(const vec *)p; }
HOT void store(double *p, vec a) { *(vec *)p = a; }
HOT double total(vec a) {
  double s = 0.0;
  for (int i = 0; i < W; i++) s += a[i];
  return s;
}
HOT vec larger(vec a, vec b) {
#if defined(__AVX512F__)
  return (vec)_mm512_max_pd((__m512d)a, (__m512d)b);
#else
  whole m = a > b;
  return (vec)((m & (whole)a) | (~m & (whole)b));
#endif
}
HOT vec root_of(vec a) {
#if defined(__AVX512F__)
  return (vec)_mm512_sqrt_pd((__m512d)a);
#else
  vec r;
  for (int i = 0; i < W; i++) r[i] = sqrt(a[i]);
  return r;
#endif
}

/* 2^y for y <= 0 to the last bits; 2^-1020 stands for all below it. 2^0 is 1 exactly. */
HOT vec power_of_two(vec y) {
  const double big = 0x1.8p52;
  y = larger(y, all(-1020.0));
  vec n = y + big;
  vec f = y - (n - big), s = all(0x1.e9d3fe3952179p-32);
  s = s * f + 0x1.e6063f7217bc6p-28;
  s = s * f + 0x1.b524fae627834p-24;
  s = s * f + 0x1.62bfd47773353p-20;
  s = s * f + 0x1.ffcbfc670dcd4p-17;
  s = s * f + 0x1.430913096fd9fp-13;
  s = s * f + 0x1.5d87fe78a5276p-10;
  s = s * f + 0x1.3b2ab6fba1ddap-7;
  s = s * f + 0x1.c6b08d704a0c2p-5;
  s = s * f + 0x1.ebfbdff82c598p-3;
  s = s * f + 0x1.62e42fefa39efp-1;
  s = s * f + 1.0;
  return s * (vec)(((whole)n + 1023) << 52);
}
#define LOG2E 1.4426950408889634

/* ---- parts of a task, shared between threads: whoever is free takes the next; what comes of a part does not depend on who did it */

typedef int (*Part)(const void *task, int64_t part, void *room); /* 0 if it failed */

typedef struct {
  Part part;
  const void *task;
  int64_t num, room;
  atomic_llong next;
  atomic_int failed;
} Crew;

static void *work_off(void *given) {
  Crew *crew = given;
  void *raw = malloc((size_t)crew->room + 64);
  if (!raw) {
    atomic_store(&crew->failed, 1);
    return NULL;
  }
  void *room = (void *)(((uintptr_t)raw + 63) / 64 * 64);
  for (;;) {
    int64_t i = atomic_fetch_add(&crew->next, 1);
    if (i >= crew->num) break;
    if (!crew->part(crew->task, i, room)) atomic_store(&crew->failed, 1);
  }
  free(raw);
  return NULL;
}

/* Every part of the task with `room` bytes for each thread; 0 if a part failed or memory ran out. */
static int share(Part part, const void *task, int64_t num, int64_t room, int64_t threads) {
  Crew crew = {.part = part, .task = task, .num = num, .room = room};
  pthread_t others[64];
  int started = 0;
  atomic_init(&crew.next, 0);
  atomic_init(&crew.failed, 0);
  for (int64_t i = 0; i + 1 < threads && i + 1 < num && i < 64; i++)
    if (pthread_create(&others[started], NULL, work_off, &crew) == 0) started++;
  work_off(&crew);
  for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
  return !atomic_load(&crew.failed);
}

#endif
