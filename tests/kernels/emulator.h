// Runs a CUDA kernel on a CPU: every thread of a block is a fiber, warps and blocks run in a random
// order, and shared memory starts as NaN. So a missing barrier, a place that nobody writes, or a lane
// that holds the wrong number of an operand shows as a wrong result. What lanes exchange is computed here.
#pragma once
#include <algorithm>
#include <csetjmp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <ucontext.h>
#include <vector>

#define EMULATED
#define DI static inline
#define __global__
#define __launch_bounds__(...)
#define __restrict__
struct Index { int x; };
static Index threadIdx, blockIdx, gridDim;
struct float2 { float x, y; };
DI float2 make_float2(float x, float y) { return {x, y}; }
struct alignas(16) float4 { float x, y, z, w; };
DI float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
DI float rsqrtf(float x) { return 1.f / std::sqrt(x); }

namespace emulator {
enum { FINISHED, RUNNING, AT_BARRIER, AT_EXCHANGE };
struct Copy {
  void* to;
  const void* from;
  int bytes;
};
struct Fiber {
  ucontext_t start;
  jmp_buf resume;
  bool started = false;
  int state = RUNNING;
  unsigned exchanges = 0;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> closed;
  std::vector<char> stack = std::vector<char>(1 << 17);
};
struct Slot { float in[16]; };
static std::vector<Fiber> fibers;
static std::vector<Slot> slots[2];
static std::vector<int> arrived;
static jmp_buf scheduler;
static ucontext_t unused;
static int current;
static unsigned char* shared_memory;
static void (*body)();

static void yield(int state) {
  Fiber& own = fibers[current];
  own.state = state;
  if (!_setjmp(own.resume)) _longjmp(scheduler, 1);
}
static void enter() {
  body();
  fibers[current].state = FINISHED;
  _longjmp(scheduler, 1);
}
// hands `count` numbers to the other lanes of the warp; returns what all of them handed over
static Slot* exchange(const float* mine, int count) {
  Fiber& own = fibers[current];
  const int which = own.exchanges++ & 1, warp = current / 32;
  std::memcpy(slots[which][current].in, mine, count * sizeof(float));
  if (++arrived[warp] == 32) {
    arrived[warp] = 0;
    for (int lane = 32 * warp; lane < 32 * warp + 32; lane++)
      if (lane != current) fibers[lane].state = RUNNING;
  } else {
    yield(AT_EXCHANGE);
  }
  return &slots[which][32 * warp];
}
static void wait_for_all() {
  yield(AT_BARRIER);
}
static void make(const Copy& copy) {
  if (copy.from) std::memcpy(copy.to, copy.from, copy.bytes);
  else std::memset(copy.to, 0, copy.bytes);
}
static void run_block(int threads, std::mt19937& dice) {
  fibers.assign(threads, Fiber());
  for (auto& each : slots) each.assign(threads, Slot());
  arrived.assign(threads / 32, 0);
  std::vector<int> order(threads / 32);
  for (size_t w = 0; w < order.size(); w++) order[w] = (int)w;
  for (;;) {
    bool moved = false, left = false;
    std::shuffle(order.begin(), order.end(), dice);
    for (int warp : order)
      for (bool again = true; again;) {
        again = false;
        for (int lane = 0; lane < 32; lane++) {
          current = 32 * warp + lane;
          Fiber& fiber = fibers[current];
          if (fiber.state != RUNNING) continue;
          again = moved = true;
          threadIdx.x = current;
          if (!_setjmp(scheduler)) {
            if (fiber.started) _longjmp(fiber.resume, 1);
            fiber.started = true;
            getcontext(&fiber.start);
            fiber.start.uc_stack.ss_sp = fiber.stack.data();
            fiber.start.uc_stack.ss_size = fiber.stack.size();
            fiber.start.uc_link = &unused;
            makecontext(&fiber.start, enter, 0);
            setcontext(&fiber.start);
          }
        }
        // now and then another warp goes first
        if (dice() % 16 == 0) break;
      }
    int waiting = 0;
    for (auto& fiber : fibers) waiting += fiber.state == AT_BARRIER, left |= fiber.state != FINISHED;
    if (!left) return;
    if (waiting == threads)
      for (auto& fiber : fibers) fiber.state = RUNNING;
    else if (!moved)
      std::fprintf(stderr, "a barrier or an exchange is not reached by all\n"), std::exit(3);
  }
}
static void launch(void (*kernel)(), int blocks, int threads, size_t shared_bytes, unsigned seed) {
  std::mt19937 dice(seed);
  std::vector<unsigned char> memory(shared_bytes + 64);
  shared_memory = memory.data() + (64 - (size_t)memory.data() % 64) % 64;
  body = kernel;
  gridDim.x = blocks;
  for (int block = 0; block < blocks; block++) {
    blockIdx.x = block;
    std::memset(memory.data(), 0xff, memory.size());
    run_block(threads, dice);
  }
}
}  // namespace emulator

#define SHARED_MEMORY(kind, name) kind& name = *(kind*)emulator::shared_memory;
DI void barrier() { emulator::wait_for_all(); }
DI int anew(int x) { return x; }
DI void copy16(void* to, const void* from) {
  if ((size_t)to % 16 || (size_t)from % 16) std::fprintf(stderr, "what is copied is not aligned\n"), std::abort();
  std::memcpy(to, from, 16);
}
DI void warp_barrier() { emulator::exchange(nullptr, 0); }
DI float from_lane(float x, int lane) { return emulator::exchange(&x, 1)[lane & 31].in[0]; }
DI float from_xor(float x, int mask) {
  const int lane = threadIdx.x & 31;
  return emulator::exchange(&x, 1)[lane ^ mask].in[0];
}
// a copy is made at once or when it is waited for, so that neither may be relied on
template <int BYTES>
DI void copy_async(void* to, const void* from, bool there) {
  static std::minstd_rand dice;
  if ((size_t)to % BYTES || (size_t)from % BYTES) std::fprintf(stderr, "a copy is not aligned\n"), std::abort();
  const emulator::Copy copy = {to, there ? from : nullptr, BYTES};
  if (dice() & 64) emulator::make(copy);
  else emulator::fibers[emulator::current].open.push_back(copy);
}
DI void close_copies() {
  emulator::Fiber& own = emulator::fibers[emulator::current];
  own.closed.push_back(own.open);
  own.open.clear();
}
template <int LEFT>
DI void await_copies() {
  auto& closed = emulator::fibers[emulator::current].closed;
  for (; closed.size() > LEFT; closed.pop_front())
    for (const auto& copy : closed.front()) emulator::make(copy);
}
DI float tanh_of(float x) { return std::tanh(x); }
DI float sigmoid_of(float x) { return 1.f / (1.f + std::exp(-x)); }

// a number as an operand has it
DI float rounded(float x) {
#if PRECISION == 0
  return (float)(_Float16)x;
#elif PRECISION == 1
  unsigned u;
  std::memcpy(&u, &x, 4);
  if (x == x) u += 0x7fff + ((u >> 16) & 1);
  u &= 0xffff0000u;
  std::memcpy(&x, &u, 4);
  return x;
#elif PRECISION == 3
  unsigned u;
  std::memcpy(&u, &x, 4);
  if (x == x) u += 0x1000;
  u &= 0xffffe000u;
  std::memcpy(&x, &u, 4);
  return x;
#else
  return x;
#endif
}
#if PRECISION < 2
typedef unsigned short elem;
DI elem narrow(float x) {
#if PRECISION == 0
  _Float16 h = (_Float16)x;
  elem r;
  std::memcpy(&r, &h, 2);
  return r;
#else
  x = rounded(x);
  unsigned u;
  std::memcpy(&u, &x, 4);
  return (elem)(u >> 16);
#endif
}
DI float widen(elem x) {
#if PRECISION == 0
  _Float16 h;
  std::memcpy(&h, &x, 2);
  return (float)h;
#else
  unsigned u = (unsigned)x << 16;
  float r;
  std::memcpy(&r, &u, 4);
  return r;
#endif
}
#else
typedef float elem;
DI elem narrow(float x) { return x; }
DI float widen(elem x) { return x; }
#endif
struct pair_t { float x, y; };
DI pair_t pair(float x, float y) { return {rounded(x), rounded(y)}; }
DI pair_t product(pair_t a, pair_t b) { return pair(a.x * b.x, a.y * b.y); }
DI pair_t no_pair() { return {0.f, 0.f}; }
DI pair_t load_pair(const elem* p) {
  if ((size_t)p % (2 * sizeof(elem))) std::fprintf(stderr, "a pair is not aligned\n"), std::abort();
  return {widen(p[0]), widen(p[1])};
}
DI void load_pairs(const elem* p, pair_t* x) {
  for (int n = 0; n < 4; n++) x[n] = load_pair(p + 2 * n);
}
DI void store_pair(elem* p, pair_t x) { p[0] = narrow(x.x), p[1] = narrow(x.y); }
DI pair_t first_twice(pair_t x) { return {x.x, x.x}; }
DI pair_t second_twice(pair_t x) { return {x.y, x.y}; }
DI float2 parts(pair_t x) { return {x.x, x.y}; }
DI void store4(elem* p, const float* x) {
  for (int n = 0; n < 4; n++) p[n] = narrow(x[n]);
}
DI void load4(const elem* p, float* x) {
  for (int n = 0; n < 4; n++) x[n] = widen(p[n]);
}
// four pairs a lane: 16 bytes at a time
DI elem* place_in_tile(elem* tile, int lane, int n) {
  const int each = 16 / sizeof(elem);
  return tile + n * 2 / each * 32 * each + lane * each + n * 2 % each;
}
DI void store_tile(elem* tile, int lane, const pair_t* x) {
  for (int n = 0; n < 4; n++) store_pair(place_in_tile(tile, lane, n), x[n]);
}
DI void load_tile(const elem* tile, int lane, pair_t* x) {
  for (int n = 0; n < 4; n++) x[n] = load_pair(place_in_tile((elem*)tile, lane, n));
}
DI void multiply8(float* d, pair_t a0, pair_t a1, pair_t b) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3;
  const float mine[6] = {a0.x, a0.y, a1.x, a1.y, b.x, b.y};
  emulator::Slot* all = emulator::exchange(mine, 6);
  for (int row = 0; row < 2; row++)
    for (int n = 0; n < 2; n++) {
      float sum = 0.f;
      for (int k = 0; k < 4; k++) {
        const float *a = all[4 * g + k].in + 2 * row, *c = all[4 * (2 * tq + n) + k].in + 4;
        sum += rounded(a[0]) * rounded(c[0]) + rounded(a[1]) * rounded(c[1]);
      }
      d[2 * row + n] += sum;
    }
}
DI void multiply16(float* d, const pair_t* a, const pair_t* b) {
  multiply8(d, a[0], a[1], b[0]);
  multiply8(d, a[2], a[3], b[1]);
}
DI pair_t transposed(float x, float y) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3, from = 8 * tq + (g >> 1);
  const float mine[2] = {x, y};
  emulator::Slot* all = emulator::exchange(mine, 2);
  return pair(all[from].in[g & 1], all[from + 4].in[g & 1]);
}
DI void store_pairs(elem* p, const pair_t* x) {
  if ((size_t)p % 16) std::fprintf(stderr, "four pairs are not aligned\n"), std::abort();
  for (int n = 0; n < 4; n++) store_pair(p + 2 * n, x[n]);
}
