// What the tensor cores multiply, at four precisions: pairs of neighbours along the contraction.
//
// PRECISION 0: fp16, 1: bf16, 2: fp32 by three products of tf32 (high and low halves), 3: tf32.
// `elem` is how an operand is held in shared memory, `pair_t` two neighbours of it in registers.
// A tile of the left operand has 16 rows; lane = 4 * g + tq holds the neighbours 2 tq, 2 tq + 1 of
// rows g and g + 8. Of the right operand it holds the same neighbours of column g. The result has
// (row g, columns 2 tq and 2 tq + 1), then the same of row g + 8, always in fp32.
#ifndef EMULATED
#define DI __device__ __forceinline__

DI void barrier() { asm volatile("bar.sync 0;" ::: "memory"); }
DI void warp_barrier() { __syncwarp(); }
DI int anew(int x) {
  asm volatile("" : "+r"(x));
  return x;
}
DI unsigned shared_place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
DI void copy16(void* to, const void* from) { *(uint4*)to = *(const uint4*)from; }
DI float from_lane(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
DI float from_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

// Copies of 4, 8 or 16 bytes into shared memory that go on by themselves; zeros if nothing is there. A thread
// closes a group of its copies, and waits until at most LEFT of its groups are still under way.
template <int BYTES>
DI void copy_async(void* to, const void* from, bool there) {
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_place(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_place(to)), "l"(from), "n"(BYTES), "r"(there ? BYTES : 0) : "memory");
}
DI void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LEFT>
DI void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

#if PRECISION < 2
typedef unsigned short elem;
typedef unsigned int pair_t;
#if PRECISION == 0
#define KIND "f16"
#define INEXACT "cvt.rn.f16x2.f32"
#define PRODUCT "mul.rn.f16x2"
#else
#define KIND "bf16"
#define INEXACT "cvt.rn.bf16x2.f32"
#define PRODUCT "mul.rn.bf16x2"
#endif
DI pair_t pair(float x, float y) {
  pair_t r;
  asm(INEXACT " %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
  return r;
}
DI pair_t product(pair_t x, pair_t y) {
  pair_t r;
  asm(PRODUCT " %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
  return r;
}
DI pair_t no_pair() { return 0; }
DI pair_t load_pair(const elem* p) { return *(const pair_t*)p; }
DI void load_pairs(const elem* p, pair_t* x) {
  const uint4 r = *(const uint4*)p;
  x[0] = r.x, x[1] = r.y, x[2] = r.z, x[3] = r.w;
}
DI void store_pair(elem* p, pair_t x) { *(pair_t*)p = x; }
// one of the two, twice
DI pair_t first_twice(pair_t x) { return __byte_perm(x, x, 0x1010); }
DI pair_t second_twice(pair_t x) { return __byte_perm(x, x, 0x3232); }
// the left operand at a tile of 16 x 16, and the right one at a tile of 8 x 16 (columns, contraction), in shared memory
DI void load_left(pair_t* a, const elem* tile, int ld) {
  const int lane = threadIdx.x & 31;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(shared_place(tile + (lane & 15) * ld + 8 * (lane >> 4))));
}
DI void load_right(pair_t* b, const elem* tile, int ld) {
  const int lane = threadIdx.x & 31;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(b[0]), "=r"(b[1])
               : "r"(shared_place(tile + (lane & 7) * ld + 8 * (lane >> 3 & 1))));
}
// two right operands: of a tile of 16 x 16 (columns, contraction), and of one that stands the other way
DI void load_rights(pair_t* b, const elem* tile, int ld) {
  const int lane = threadIdx.x & 31;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(shared_place(tile + ((lane & 7) + 8 * (lane >> 4)) * ld + 8 * (lane >> 3 & 1))));
}
DI void load_turned(pair_t* b, const elem* tile, int ld) {
  const int lane = threadIdx.x & 31;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(shared_place(tile + (lane & 15) * ld + 8 * (lane >> 4))));
}
DI void store_tile(elem* tile, int lane, const pair_t* x) { *(uint4*)(tile + 8 * lane) = make_uint4(x[0], x[1], x[2], x[3]); }
DI void load_tile(const elem* tile, int lane, pair_t* x) { load_pairs(tile + 8 * lane, x); }
DI elem narrow(float x) { return (elem)(pair(x, 0.f) & 0xffffu); }
DI float widen(elem x) {
  float r;
#if PRECISION == 0
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
#else
  r = __uint_as_float((unsigned)x << 16);
#endif
  return r;
}
DI float2 parts(pair_t x) { return make_float2(widen((elem)(x & 0xffffu)), widen((elem)(x >> 16))); }
// four numbers of a memory side by side
DI void store4(elem* p, const float* x) { *(uint2*)p = make_uint2(pair(x[0], x[1]), pair(x[2], x[3])); }
DI void load4(const elem* p, float* x) {
  const uint2 r = *(const uint2*)p;
  const float2 a = parts(r.x), b = parts(r.y);
  x[0] = a.x, x[1] = a.y, x[2] = b.x, x[3] = b.y;
}
// 16 x 8 += 16 x 16 times 16 x 8: a = neighbours 0 to 7 of rows g and g + 8, then neighbours 8 to 15
DI void multiply16(float* d, const pair_t* a, const pair_t* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
DI void multiply8(float* d, pair_t a0, pair_t a1, pair_t b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." KIND "." KIND ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b));
}
DI float tanh_of(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DI float sigmoid_of(float x) { return fmaf(0.5f, tanh_of(0.5f * x), 0.5f); }
// (columns 2 tq, 2 tq + 1 of row g) becomes (rows 2 tq, 2 tq + 1 of column g), for a tile of 8 x 8
DI pair_t transposed(float x, float y) {
  pair_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(pair(x, y)));
  return r;
}
#else
typedef float elem;
typedef float2 pair_t;
DI pair_t pair(float x, float y) { return make_float2(x, y); }
DI pair_t product(pair_t x, pair_t y) { return make_float2(x.x * y.x, x.y * y.y); }
DI pair_t no_pair() { return make_float2(0.f, 0.f); }
DI pair_t load_pair(const elem* p) { return *(const float2*)p; }
DI void load_pairs(const elem* p, pair_t* x) {
  const float4 r = ((const float4*)p)[0], q = ((const float4*)p)[1];
  x[0] = make_float2(r.x, r.y), x[1] = make_float2(r.z, r.w), x[2] = make_float2(q.x, q.y), x[3] = make_float2(q.z, q.w);
}
DI void store_pair(elem* p, pair_t x) { *(float2*)p = x; }
DI pair_t first_twice(pair_t x) { return make_float2(x.x, x.x); }
DI pair_t second_twice(pair_t x) { return make_float2(x.y, x.y); }
DI float2 parts(pair_t x) { return x; }
DI void store4(elem* p, const float* x) { *(float4*)p = make_float4(x[0], x[1], x[2], x[3]); }
DI void load4(const elem* p, float* x) {
  const float4 r = *(const float4*)p;
  x[0] = r.x, x[1] = r.y, x[2] = r.z, x[3] = r.w;
}
// four pairs a lane, in two pieces: lanes that are served together meet each bank of shared memory once
DI void store_tile(elem* tile, int lane, const pair_t* x) {
  ((float4*)tile)[lane] = make_float4(x[0].x, x[0].y, x[1].x, x[1].y);
  ((float4*)tile)[lane + 32] = make_float4(x[2].x, x[2].y, x[3].x, x[3].y);
}
DI void load_tile(const elem* tile, int lane, pair_t* x) {
  const float4 r = ((const float4*)tile)[lane], q = ((const float4*)tile)[lane + 32];
  x[0] = make_float2(r.x, r.y), x[1] = make_float2(r.z, r.w), x[2] = make_float2(q.x, q.y), x[3] = make_float2(q.z, q.w);
}
DI elem narrow(float x) { return x; }
DI float widen(elem x) { return x; }
#if PRECISION == 2
// by whole numbers, which takes a fourth of the conversion's time; what it makes of a NaN, the low half mends
DI float high(float x) { return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u); }
#else
DI float high(float x) {
  unsigned r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return __uint_as_float(r);
}
#endif
DI void multiply_tf32(float* d, float a0, float a1, float a2, float a3, float b0, float b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)), "r"(__float_as_uint(a3)),
                 "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}
// neighbour x stands for tq, neighbour y for tq + 4: the order of a contraction is free
DI void multiply8(float* d, pair_t a0, pair_t a1, pair_t b) {
  const float h[6] = {high(a0.x), high(a1.x), high(a0.y), high(a1.y), high(b.x), high(b.y)};
#if PRECISION == 2
  // tensor cores cut the sums that they make, so long sums are made here, where they are rounded
  // low halves have one bit more than tensor cores look at
  const float l[6] = {a0.x - h[0], a1.x - h[1], a0.y - h[2], a1.y - h[3], b.x - h[4], b.y - h[5]};
  float part[4] = {0.f, 0.f, 0.f, 0.f};
#if D <= 32
  // short sums show what is left out
  multiply_tf32(part, l[0], l[1], l[2], l[3], l[4], l[5]);
#endif
  multiply_tf32(part, l[0], l[1], l[2], l[3], h[4], h[5]);
  multiply_tf32(part, h[0], h[1], h[2], h[3], l[4], l[5]);
  multiply_tf32(part, h[0], h[1], h[2], h[3], h[4], h[5]);
  d[0] += part[0], d[1] += part[1], d[2] += part[2], d[3] += part[3];
#else
  multiply_tf32(d, h[0], h[1], h[2], h[3], h[4], h[5]);
#endif
}
#if PRECISION == 2
struct Halves { float high[8], low[8]; };
DI Halves halves(const pair_t* x, int count) {
  Halves r;
#pragma unroll
  for (int n = 0; n < count; n++) {
    r.high[2 * n] = high(x[n].x), r.high[2 * n + 1] = high(x[n].y);
    r.low[2 * n] = x[n].x - r.high[2 * n], r.low[2 * n + 1] = x[n].y - r.high[2 * n + 1];
  }
  return r;
}
DI void multiply_halves(float* d, const float* a, const float* b, int k) {
  multiply_tf32(d, a[4 * k], a[4 * k + 2], a[4 * k + 1], a[4 * k + 3], b[2 * k], b[2 * k + 1]);
}
// both halves of the contraction side by side, so that neither waits for the other
DI void multiply16(float* d, const pair_t* a, const pair_t* b) {
  const Halves x = halves(a, 4), y = halves(b, 2);
  float p[4] = {0.f, 0.f, 0.f, 0.f}, q[4] = {0.f, 0.f, 0.f, 0.f};
#if D <= 32
  multiply_halves(p, x.low, y.low, 0), multiply_halves(q, x.low, y.low, 1);
#endif
  multiply_halves(p, x.low, y.high, 0), multiply_halves(q, x.low, y.high, 1);
  multiply_halves(p, x.high, y.low, 0), multiply_halves(q, x.high, y.low, 1);
  multiply_halves(p, x.high, y.high, 0), multiply_halves(q, x.high, y.high, 1);
#pragma unroll
  for (int n = 0; n < 4; n++) d[n] += p[n] + q[n];
}
// two right operands meet one left operand
DI void multiply16_twice(float* d, float* e, const pair_t* a, const pair_t* b, const pair_t* c) {
  const Halves x = halves(a, 4), y = halves(b, 2), z = halves(c, 2);
  float p[4][4] = {};
#if D <= 32
#pragma unroll
  for (int n = 0; n < 4; n++) multiply_halves(p[n], x.low, n & 2 ? z.low : y.low, n & 1);
#endif
#pragma unroll
  for (int n = 0; n < 4; n++) multiply_halves(p[n], x.low, n & 2 ? z.high : y.high, n & 1);
#pragma unroll
  for (int n = 0; n < 4; n++) multiply_halves(p[n], x.high, n & 2 ? z.low : y.low, n & 1);
#pragma unroll
  for (int n = 0; n < 4; n++) multiply_halves(p[n], x.high, n & 2 ? z.high : y.high, n & 1);
#pragma unroll
  for (int n = 0; n < 4; n++) d[n] += p[0][n] + p[1][n], e[n] += p[2][n] + p[3][n];
}
#else
DI void multiply16(float* d, const pair_t* a, const pair_t* b) {
  multiply8(d, a[0], a[1], b[0]);
  multiply8(d, a[2], a[3], b[1]);
}
#endif
DI float tanh_of(float x) { return tanhf(x); }
DI float sigmoid_of(float x) { return 1.f / (1.f + expf(-x)); }
DI pair_t transposed(float x, float y) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3, from = 8 * tq + (g >> 1);
  const float x0 = from_lane(x, from), y0 = from_lane(y, from), x1 = from_lane(x, from + 4), y1 = from_lane(y, from + 4);
  return g & 1 ? make_float2(y0, y1) : make_float2(x0, x1);
}
#endif
#endif

#if defined(EMULATED) || PRECISION != 2
DI void multiply16_twice(float* d, float* e, const pair_t* a, const pair_t* b, const pair_t* c) {
  multiply16(d, a, b);
  multiply16(e, a, c);
}
#endif
// operands in shared memory: at 16 bits there is an instruction for it
#if defined(EMULATED) || PRECISION >= 2
DI void load_left(pair_t* a, const elem* tile, int ld) {
  const int lane = threadIdx.x & 31;
  const elem* from = tile + (lane >> 2) * ld + 2 * (lane & 3);
  a[0] = load_pair(from), a[1] = load_pair(from + 8 * ld), a[2] = load_pair(from + 8), a[3] = load_pair(from + 8 * ld + 8);
}
DI void load_right(pair_t* b, const elem* tile, int ld) {
  const int lane = threadIdx.x & 31;
  const elem* from = tile + (lane >> 2) * ld + 2 * (lane & 3);
  b[0] = load_pair(from), b[1] = load_pair(from + 8);
}
DI void load_rights(pair_t* b, const elem* tile, int ld) {
  load_right(b, tile, ld);
  load_right(b + 2, tile + 8 * ld, ld);
}
DI void load_turned(pair_t* b, const elem* tile, int ld) {
  const int lane = threadIdx.x & 31;
  const elem* from = tile + 2 * (lane & 3) * ld + (lane >> 2);
#pragma unroll
  for (int n = 0; n < 4; n++) {
    const elem* x = from + 8 * (n & 1) * ld + 8 * (n >> 1);
    b[n] = pair(widen(x[0]), widen(x[ld]));
  }
}
#endif

// two rows of a left operand, weighed by two neighbours `w` for each row
DI void weighed(pair_t* a, pair_t w0, pair_t w1, pair_t x0, pair_t x1) {
  a[0] = product(first_twice(w0), x0), a[1] = product(first_twice(w1), x1);
  a[2] = product(second_twice(w0), x0), a[3] = product(second_twice(w1), x1);
}

// three products in the place of one make so much code that loops are left as loops
#if PRECISION < 2
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("unroll 1")
#endif

// the same exchange, exact at any precision
DI float2 transposed_exact(float x, float y) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3, from = 8 * tq + (g >> 1);
  const float x0 = from_lane(x, from), y0 = from_lane(y, from), x1 = from_lane(x, from + 4), y1 = from_lane(y, from + 4);
  return g & 1 ? make_float2(y0, y1) : make_float2(x0, x1);
}
// all that was fetched is there
DI void fetched() {
  close_copies();
  await_copies<0>();
}
// fetches numbers that stand side by side, and rows of `columns` of them to rows `ld` apart; what a thread
// copies is computed anew each time, for in a loop its places would take more registers than there are
DI void fetch_all(float* to, const float* from, int count, int threads) {
  for (int x = 4 * anew(threadIdx.x); x < count; x += 4 * threads) copy_async<16>(to + x, from + x, true);
}
DI void fetch_rows(float* to, const float* from, int rows, int columns, int ld, int warps) {
  const int tid = anew(threadIdx.x), x = 4 * (tid & 31);
  if (x < columns)
    for (int row = tid >> 5; row < rows; row += warps) copy_async<16>(to + row * ld + x, from + row * columns + x, true);
}
// copies a matrix of operands from shared memory to rows `to_ld` apart
DI void write_rows(elem* to, int to_ld, const elem* from, int ld, int rows, int columns, int threads) {
  const int wide = 16 / (int)sizeof(elem), chunks = columns / wide;
#pragma unroll 4
  for (int x = anew(threadIdx.x); x < rows * chunks; x += threads)
    copy16(to + x / chunks * to_ld + x % chunks * wide, from + x / chunks * ld + x % chunks * wide);
}
// the sum over the four lanes that share g, or over the eight that share tq
DI float over_tq(float x) {
  x += from_xor(x, 1);
  return x + from_xor(x, 2);
}
DI float over_g(float x) {
  x += from_xor(x, 4);
  x += from_xor(x, 8);
  return x + from_xor(x, 16);
}
#ifndef EMULATED
// the block's shared memory, laid out as a struct
#define SHARED_MEMORY(kind, name)                          \
  extern __shared__ __align__(16) unsigned char memory_[]; \
  kind& name = *(kind*)memory_;
// four pairs, as `load_pairs` reads them
#if PRECISION < 2
DI void store_pairs(elem* p, const pair_t* x) { *(uint4*)p = make_uint4(x[0], x[1], x[2], x[3]); }
#else
DI void store_pairs(elem* p, const pair_t* x) {
  ((float4*)p)[0] = make_float4(x[0].x, x[0].y, x[1].x, x[1].y);
  ((float4*)p)[1] = make_float4(x[2].x, x[2].y, x[3].x, x[3].y);
}
#endif
#endif
