/* Random numbers: those of jax.random with its default generator, threefry2x32, of which every number has its own counter. */

#include <stdint.h>


typedef struct { uint32_t a, b; } Key;

static Key threefry(Key key, uint32_t a, uint32_t b) {
  static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  uint32_t schedule[3] = {key.a, key.b, key.a ^ key.b ^ 0x1BD11BDAu};
  a += schedule[0], b += schedule[1];
  for (uint32_t i = 0; i < 5; i++) {
    for (int k = 0; k < 4; k++) {
      int turn = turns[i % 2][k];
      a += b;
      b = (b << turn) | (b >> (32 - turn));
      b ^= a;
    }
    a += schedule[(i + 1) % 3];
    b += schedule[(i + 2) % 3] + i + 1;
  }
  return (Key){a, b};
}

static uint64_t bits(Key key, uint64_t at) {
  Key found = threefry(key, (uint32_t)(at >> 32), (uint32_t)at);
  return ((uint64_t)found.a << 32) | found.b;
}

static double uniform(Key key, uint64_t at, double low, double high) {
  union { uint64_t i; double d; } one = {.i = (bits(key, at) >> 12) | 0x3FF0000000000000ull};
  double t = (one.d - 1.0) * (high - low) + low;
  return t > low ? t : low;
}

/* What is random in a trajectory of each key, but for the normal numbers: those are sqrt(2) erfinv(u), u in (-1, 1). */
void hyperleaf_chances(const Key *keys, int64_t num, int64_t size, int64_t steps, double least, double most, int64_t *length,
                       double *jitter, double *centred, double *accept) {
  uint64_t low = (steps + 1) / 2, span = steps + 1 - low;
  uint64_t multiplier = (1ull << 32) % span;
  multiplier = multiplier * multiplier % span;
  for (int64_t s = 0; s < num; s++) {
    Key own[4];
    for (uint32_t i = 0; i < 4; i++) own[i] = threefry(keys[s], 0, i);
    uint64_t higher = bits(threefry(own[0], 0, 0), 0), lower = bits(threefry(own[0], 0, 1), 0);
    length[s] = low + ((higher % span) * multiplier + lower % span) % span;
    jitter[s] = uniform(own[1], 0, least, most);
    for (int64_t i = 0; i < size; i++) centred[s * size + i] = uniform(own[2], i, -0x1.fffffffffffffp-1, 1.0);
    accept[s] = uniform(own[3], 0, 0.0, 1.0);
  }
}
