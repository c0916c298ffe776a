// What the kernels of single steps read as operands, in the order in which the lanes of a warp hold it.
//
// The first `maps` blocks pack the map: for rows i and i + 1 of the memory, the x-th 16 columns of each half of the
// depth, for both halves, for both rows, tiles of 16 x 16 as right operands. Contracted is the depth or, if `turned`, what is
// distilled. The other blocks pack the gradient of what is distilled as right operand and the values as left
// operand, both contracted over pairs: two pairs at a time, `distil_weight.cu` reads them.
#define FD ((D / 16 + 1) / 2)
#define THREADS 256

struct Shared {
  char unused;
};

// 8 numbers of a lane: tile or row, half of the contraction, neighbour
DI void pack_map(const float* weight, elem* packed, int turned, int n) {
  const int lane = n % 32, g = lane >> 2, tq = lane & 3, tile = n / 32 % (R / 16);
  const int rest = n / 32 / (R / 16);
  const int i = 2 * (rest / 4 / FD) + (rest & 1), f0 = 16 * ((rest >> 1 & 1) * FD + rest / 4 % FD), r0 = 16 * tile;
  if (i >= (REAL_D + 1) / 2 * 2) return;
  float x[8];
#pragma unroll
  for (int c = 0; c < 8; c++) {
    const int column = 8 * (c >> 2) + g, contracted = 8 * (c >> 1 & 1) + 2 * tq + (c & 1);
    const int r = r0 + (turned ? contracted : column), f = f0 + (turned ? column : contracted);
    x[c] = r < REAL_R && i < REAL_D && f < REAL_D ? weight[((long long)r * REAL_D + i) * REAL_D + f] : 0.f;
  }
  const pair_t both[4] = {pair(x[0], x[1]), pair(x[2], x[3]), pair(x[4], x[5]), pair(x[6], x[7])};
  store_tile(packed + n / 32 * 256, lane, both);
}

DI void pack_rows(
    const float* normal, const float* fades, const float* back, float scale, elem* y, elem* v, int n, int batch,
    int time, int first, int count) {
  const int lane = n % 32, g = lane >> 2, tq = lane & 3, tile = n / 32 % (Y / 16 + 2 * FD), two = n / 32 / (Y / 16 + 2 * FD);
  const bool values = tile >= Y / 16;
  // where rows begin
  long long from[2];
  float by[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int p = 2 * two + h, sequence = p / count, late = p % count, step = sequence * time + first + late;
    const bool in = p < batch * count;
    by[h] = !in ? 0.f : values ? fades[step] : scale;
    from[h] = !in ? 0 : values ? ((long long)step * 3 + 2) * REAL_N * REAL_D : ((long long)late * batch + sequence) * REAL_N * REAL_R;
  }
  float x[8];
#pragma unroll
  for (int c = 0; c < 8; c++) {
    // the pair is the slower half of a right operand's contraction; a left operand here has but 8 neighbours
    const int h = values ? c >> 2 : c >> 1 & 1, s = 2 * tq + (c & 1), column = 8 * (values ? c >> 1 & 1 : c >> 2) + g;
    const int f = 16 * (tile - Y / 16) + column, r = 16 * tile + column;
    const long long start = h ? from[1] : from[0];
    x[c] = 0.f;
    if (2 * two + h < batch * count && s < REAL_N) {
      if (values && f < REAL_D) x[c] = (h ? by[1] : by[0]) * normal[start + s * REAL_D + f];
      if (!values && r < REAL_R) x[c] = (h ? by[1] : by[0]) * back[start + s * REAL_R + r];
    }
  }
  const pair_t all[4] = {pair(x[0], x[1]), pair(x[2], x[3]), pair(x[4], x[5]), pair(x[6], x[7])};
  elem* to = values ? v + ((long long)two * 2 * FD + tile - Y / 16) * 256 : y + ((long long)two * (Y / 16) + tile) * 256;
  store_tile(to, lane, all);
}

extern "C" __global__ void __launch_bounds__(THREADS) distil_pack(
    const float* __restrict__ weight, elem* __restrict__ packed, int turned, int maps, const float* __restrict__ normal,
    const float* __restrict__ fades, const float* __restrict__ back, const float* __restrict__ scale,
    elem* __restrict__ y, elem* __restrict__ v, int batch, int time, int first, int count, int twos) {
  if ((int)blockIdx.x < maps) {
    pack_map(weight, packed, turned, blockIdx.x * THREADS + threadIdx.x);
  } else {
    const int n = (blockIdx.x - maps) * THREADS + threadIdx.x;
    if (n < twos * 32 * (Y / 16 + 2 * FD))
      pack_rows(normal, fades, back, scale ? *scale : 1.f, y, v, n, batch, time, first, count);
  }
}
