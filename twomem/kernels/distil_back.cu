// Back from what single steps are distilled to: the gradients of their queries, keys, values and fades.
//
// `distil.cu` has the axes, and who has which pairs. For rows i and i + 1 of the memory, its gradient
// dM[s][f] = sum over r of dy[s][r] G[r, i, f] is made in registers, and meets V and K there: as it is made, a tile
// has one row i of two pairs; as V meets it, rows i and i + 1 of one pair; as K meets it, those turned.
#include "single_steps.cuh"
#define OUT (R / 16)

struct Shared {
  float rows[PAIRS][16][D + 4];  // queries, then keys; their gradients take their place
  elem ring[2][SPAN * SLOT];
  float4 others[2][GROUPS][2][TILES][32];  // what the other warp of a group found for this one's pairs
  float to_fade[2][PAIRS];
  int step[PAIRS];
};
#include "distil_back.cuh"

// neighbours (i, s), then (i + 1, s), of column j
DI void find_matches(const Shared& sh, int first_pair, int i, pair_t (*turned)[2]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3;
#pragma unroll
  for (int q = 0; q < 2 * TILES; q++) {
    const auto& rows = sh.rows[first_pair + q];
    const float2 key = *(const float2*)&rows[8 + g][i], q0 = *(const float2*)&rows[2 * tq][i], q1 = *(const float2*)&rows[2 * tq + 1][i];
    turned[q][0] = pair(tanh_of(q0.x * key.x), tanh_of(q1.x * key.x));
    turned[q][1] = pair(tanh_of(q0.y * key.y), tanh_of(q1.y * key.y));
  }
}

// From the gradient of a pair's matches, (row s, columns 2 tq and 2 tq + 1) of i, then of i + 1, to those of its
// queries and keys. Sums of several numbers are shared out among the lanes.
DI void finish_rows(float (*rows)[D + 4], int i, const float* sum) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3;
  float q[2], k[2][2], to_q[2], to_k[2][2];
#pragma unroll
  for (int x = 0; x < 2; x++) {
    q[x] = rows[g][i + x], k[x][0] = rows[8 + 2 * tq][i + x], k[x][1] = rows[9 + 2 * tq][i + x];
#pragma unroll
    for (int n = 0; n < 2; n++) {
      const float match = tanh_of(q[x] * k[x][n]), e = sum[2 * x + n] * (1.f - match * match);
      to_q[x] = n ? fmaf(e, k[x][n], to_q[x]) : e * k[x][n], to_k[x][n] = e * q[x];
    }
  }
  const bool odd = lane & 1, late = lane & 16, right = lane & 8;
  float own_q = (odd ? to_q[1] : to_q[0]) + from_xor(odd ? to_q[0] : to_q[1], 1);
  own_q += from_xor(own_q, 2);
  float both[2];
#pragma unroll
  for (int n = 0; n < 2; n++) both[n] = (late ? to_k[1][n] : to_k[0][n]) + from_xor(late ? to_k[0][n] : to_k[1][n], 16);
  float own_k = (right ? both[1] : both[0]) + from_xor(right ? both[0] : both[1], 8);
  own_k += from_xor(own_k, 4);
  // all lanes have read
  warp_barrier();
  if (tq < 2) rows[g][i + tq] = own_q;
  if (!(g & 1)) rows[8 + 2 * tq + right][i + late] = own_k;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) distil_back(
    const float* __restrict__ normal, const float* __restrict__ fades, const elem* __restrict__ weight,
    const float* __restrict__ back, const float* __restrict__ scale, float* __restrict__ d_rows,
    float* __restrict__ d_fades, int batch, int time, int first, int count) {
  SHARED_MEMORY(Shared, sh)
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, group = warp >> 1, half = warp & 1, pairs = 2 * TILES * group;
  find_steps(sh, batch, time, first, count);
  bring_rows(sh, normal);
  bring_part(sh, weight, 0);
  close_copies();
  const float in_range = scale ? *scale : 1.f;
  pair_t y[TILES][OUT][4], v[FD][2 * TILES][2], turned[2 * TILES][2];
  load_back(back, in_range, pairs, batch, count, y);
  load_values(sh, normal, fades, pairs, half, v);
  const int parts = (REAL_D + 1) / 2 * (FD / SPAN);
  float to_values[FD][2 * TILES][4] = {}, to_match[2 * TILES][4], own[TILES][4];
  for (int n = 0; n < parts; n += FD / SPAN) {
    const int i = 2 * (n / (FD / SPAN)), turn = n / (FD / SPAN) & 1;
#pragma unroll
    for (int x = 0; x < FD; x++) {
      const int part = n + x / SPAN;
      if (x % SPAN == 0) {
        await_copies<0>();
        barrier();
        if (part + 1 < parts) bring_part(sh, weight, part + 1);
        close_copies();
      }
      if (x == 0) find_matches(sh, pairs, i, turned);
      const elem* from = sh.ring[part & 1] + x % SPAN * SLOT + half * (SLOT / 2);
      float made[2][TILES][2][4] = {};
#pragma unroll
      for (int r = 0; r < OUT; r++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
          pair_t b[4];
          load_tile(from + (e * OUT + r) * 256, lane, b);
#pragma unroll
          for (int t = 0; t < TILES; t++) {
            multiply16(made[e][t][0], y[t][r], b);
            multiply16(made[e][t][1], y[t][r], b + 2);
          }
        }
      // what was left of the rows before is done while these are multiplied
      if (x == 0 && n > 0)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
          const float4 other = sh.others[turn ^ 1][group][half][t][lane];
          const float sum[4] = {own[t][0] + other.x, own[t][1] + other.y, own[t][2] + other.z, own[t][3] + other.w};
          finish_rows(sh.rows[pairs + half * TILES + t], i - 2, sum);
        }
#pragma unroll
      for (int q = 0; q < 2 * TILES; q++) {
        const int t = q / 2, c = 2 * (q % 2);
        if (x == 0) to_match[q][0] = to_match[q][1] = to_match[q][2] = to_match[q][3] = 0.f;
        pair_t a[4], across[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const float* m = made[e % 2][t][e / 2] + c;
          a[e] = pair(m[0], m[1]);
          across[2 * (e % 2) + e / 2] = transposed(m[0], m[1]);
        }
        multiply16(to_match[q], a, v[x][q]);
        multiply16(to_values[x][q], across, turned[q]);
      }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
      float theirs[4];
#pragma unroll
      for (int e = 0; e < 4; e++) {
        own[t][e] = half ? to_match[TILES + t][e] : to_match[t][e];
        theirs[e] = half ? to_match[t][e] : to_match[TILES + t][e];
      }
      sh.others[turn][group][half ^ 1][t][lane] = make_float4(theirs[0], theirs[1], theirs[2], theirs[3]);
    }
  }
  const float by = 1.f / in_range;
  store_values(sh, normal, fades, d_rows, by, pairs, half, to_values);
  barrier();
#pragma unroll
  for (int t = 0; t < TILES; t++) {
    const float4 other = sh.others[((REAL_D + 1) / 2 - 1) & 1][group][half][t][lane];
    const float sum[4] = {own[t][0] + other.x, own[t][1] + other.y, own[t][2] + other.z, own[t][3] + other.w};
    finish_rows(sh.rows[pairs + half * TILES + t], (REAL_D - 1) / 2 * 2, sum);
  }
  barrier();
  store_rows(sh, d_rows, d_fades, by);
}
