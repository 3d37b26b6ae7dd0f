// Thresholds of fusion that were measured: how large tensors are that pay, and how much is done at a time. What only
// has to be right stands where it is used.
//
// (a) 2026-11-30, a Xeon with AVX-512, 2 cores beside other work, built for x86-64-v4; shortest of many runs, of one
//     thread where the processor's time of the thread is taken:
//       python tools/bench --family compile, and its chain of 11 operators over 2^24 floats with other numbers here
#pragma once

#include <cstdint>

namespace facula::tuning {

// Elements of a result from which on calls are taken down. (a) Chains of 2, 4 and 8 operators take 1.0, 0.9 and 0.85 of
// eager time at 4096, 0.75, 0.57 and 0.48 at 8192, 0.52, 0.41 and 0.35 at 16384; at 2048 1.8, 1.65 and 1.65. A record
// of one operator, which is in vain, costs 1 us, what that operator takes for 8192 elements.
inline constexpr int64_t kCaptureLeast = 8192;

// Bytes of all that a tile reads and writes, of 48 KiB that a first-level cache has here. (a) The chain takes 16.3 ms
// with tiles of 256 elements, 11.2 with 512, which this makes, 12.4 with 1024, 15.9 with 2048; one addition 9.5.
inline constexpr int64_t kFusedTileBytes = 32 << 10;
// Elements that longer tiles are a multiple of. (a) 448 and 576 take 12.4 and 12.1 ms beside the 11.2 of 512.
inline constexpr int64_t kFusedTileRound = 512;
// What is larger comes from memory, and is asked for a tile ahead. (a) Without that the chain takes 18 to 21 ms
// for 14.5.
inline constexpr int64_t kFusedFarBytes = int64_t{1} << 20;
// Lines that are asked for and sent off at a step, of each operand: more are not on their way at once. (a) One
// addition, compiled, takes 9.0 ms; with tiles of 4096, of which all 256 lines are asked for in one go, 13.
inline constexpr int64_t kFusedLinesAStep = 16;

// Elements of the rows that a reduction and what follows from it take at a time, which stay in the second-level cache;
// four times as many have to be there. (a) Softmax written out, 4096 x 1024, takes 8.1 ms with 4096 elements, 6.5 with
// 16384, 6.1 with 32768, 6.0 with 65536; 9.1 one group after the other, 12.0 eager.
inline constexpr int64_t kFusedRowsBlock = 32768;
inline constexpr int64_t kFusedRowsLeast = 64;  // with fewer rows reductions cut rows among threads

}  // namespace facula::tuning
