// What single steps are distilled to: y[p][s] = sum over i, f of G[., i, f] M[p][s][i, f], where a pair p is a step
// of a sequence, and M = sum over j of K[j][s] (x) V[j] its memory: K[j][s] = tanh(q_s k_j), V its values, times
// what of them is left. No memory is written: it is made in the registers from which the tensor cores read it.
//
// A group of two warps has 2 * TILES pairs; each warp of it has half of the depth f. A tile of the memory, as it is
// made, has rows i and i + 1 of all queries of one pair; as it is read, one row i of all queries of two pairs. Both
// are the same numbers in the same lanes. N is 8; D and R are whole tiles; `distil_pack.cu` has the map's order.
#include "single_steps.cuh"
#define OUT (R / 8)

struct Shared {
  union {
    float rows[PAIRS][16][D + 4];  // queries, then keys
    float sums[GROUPS][TILES * OUT * 4][32];
  };
  elem ring[2][SPAN * SLOT];
  int step[PAIRS];
};

// neighbours j of column f: the values of the warp's pairs in its half of the depth
DI void load_values(const Shared& sh, const float* normal, const float* fades, int group, int half, pair_t (*v)[2][2 * TILES]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, j = 2 * (lane & 3);
#pragma unroll
  for (int q = 0; q < 2 * TILES; q++) {
    const int step = sh.step[2 * TILES * group + q];
    const float fade = step >= 0 ? fades[step] : 0.f;
    const float* from = normal + ((long long)(step >= 0 ? step : 0) * 3 + 2) * REAL_N * REAL_D;
#pragma unroll
    for (int x = 0; x < FD; x++)
#pragma unroll
      for (int t = 0; t < 2; t++) {
        const int f = 16 * (half * FD + x) + 8 * t + g;
        const bool in = step >= 0 && f < REAL_D;
        v[x][t][q] = pair(in && j < REAL_N ? fade * from[j * REAL_D + f] : 0.f, in && j + 1 < REAL_N ? fade * from[(j + 1) * REAL_D + f] : 0.f);
      }
  }
}

// rows (i, s) and (i + 1, s), neighbours j
DI void find_matches(const Shared& sh, int first_pair, int i, pair_t (*match)[2]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3;
#pragma unroll
  for (int q = 0; q < 2 * TILES; q++) {
    const auto& rows = sh.rows[first_pair + q];
    const float2 query = *(const float2*)&rows[g][i], k0 = *(const float2*)&rows[8 + 2 * tq][i], k1 = *(const float2*)&rows[9 + 2 * tq][i];
    match[q][0] = pair(tanh_of(query.x * k0.x), tanh_of(query.x * k1.x));
    match[q][1] = pair(tanh_of(query.y * k0.y), tanh_of(query.y * k1.y));
  }
}

// 16 columns of rows i and i + 1 of the memories, as left operands
DI void make_memory(const pair_t (*match)[2], const pair_t (*v)[2 * TILES], pair_t (*a)[TILES][4]) {
#pragma unroll
  for (int q = 0; q < 2 * TILES; q++)
#pragma unroll
    for (int t = 0; t < 2; t++) {
      float made[4] = {0.f, 0.f, 0.f, 0.f};
      multiply8(made, match[q][0], match[q][1], v[t][q]);
      a[0][q / 2][2 * t + q % 2] = pair(made[0], made[1]);
      a[1][q / 2][2 * t + q % 2] = pair(made[2], made[3]);
    }
}

DI void store_sums(const Shared& sh, float* found, int group, const float (*sum)[OUT][4], int batch, int count) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3;
#pragma unroll
  for (int q = 0; q < 2 * TILES; q++) {
    const int local = 2 * TILES * group + q, p = blockIdx.x * PAIRS + local;
    if (p >= batch * count || g >= REAL_N) continue;
    // batch is the faster axis of the two
    float* to = found + (((long long)(p % count) * batch + p / count) * REAL_N + g) * REAL_R;
#pragma unroll
    for (int r = 0; r < OUT; r++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int o = 8 * r + 2 * tq + e, c = 2 * (q % 2) + e;
        if (o < REAL_R) to[o] = sum[q / 2][r][c] + sh.sums[group][((q / 2) * OUT + r) * 4 + c][lane];
      }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) distil(
    const float* __restrict__ normal, const float* __restrict__ fades, const elem* __restrict__ weight,
    float* __restrict__ found, int batch, int time, int first, int count) {
  SHARED_MEMORY(Shared, sh)
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = warp >> 1, half = warp & 1;
  find_steps(sh, batch, time, first, count);
  bring_rows(sh, normal);
  bring_part(sh, weight, 0);
  close_copies();
  pair_t v[FD][2][2 * TILES], match[2 * TILES][2], now[2][TILES][4], next[2][TILES][4];
  load_values(sh, normal, fades, group, half, v);
  await_copies<0>();
  barrier();
  const int parts = (REAL_D + 1) / 2 * (FD / SPAN), pairs = 2 * TILES * group;
  find_matches(sh, pairs, 0, match);
  make_memory(match, v[0], next);
  float sum[TILES][OUT][4] = {};
  for (int n = 0; n < parts; n += FD / SPAN)
#pragma unroll
    for (int x = 0; x < FD; x++) {
      const int part = n + x / SPAN;
      if (x % SPAN == 0) {
        await_copies<0>();
        barrier();
        if (part + 1 < parts) bring_part(sh, weight, part + 1);
        close_copies();
      }
#pragma unroll
      for (int e = 0; e < 2 * TILES * 4; e++) now[e / 4 / TILES][e / 4 % TILES][e % 4] = next[e / 4 / TILES][e / 4 % TILES][e % 4];
      // what is read next is made while this is multiplied
      if (x == FD - 1 && part + 1 < parts) find_matches(sh, pairs, 2 * ((part + 1) / (FD / SPAN)), match);
      make_memory(match, v[(x + 1) % FD], next);
      const elem* from = sh.ring[part & 1] + x % SPAN * SLOT + half * (SLOT / 2);
#pragma unroll
      for (int e = 0; e < 2; e++)
#pragma unroll
        for (int r = 0; r < OUT; r += 2) {
          pair_t b[4];
          load_tile(from + (e * (OUT / 2) + r / 2) * 256, lane, b);
#pragma unroll
          for (int t = 0; t < TILES; t++) {
            multiply16(sum[t][r], now[e][t], b);
            multiply16(sum[t][r + 1], now[e][t], b + 2);
          }
        }
    }
  barrier();
#pragma unroll
  for (int x = 0; x < TILES * OUT * 4; x++)
    if (half) sh.sums[group][x][lane] = sum[x / 4 / OUT][x / 4 % OUT][x % 4];
  barrier();
  if (!half) store_sums(sh, found, group, sum, batch, count);
}
