// Thresholds of convolution, matrix products and pooling that were measured: where a method pays, and how much it takes
// at a time. What only has to be right (register tiles, sizes of buffers) stands where it is used.
//
// (a) 2026-11-28, a Xeon with AVX-512 and AMX, 2 cores, one thread, shares of torch 2.13's time:
//       python tools/bench --threads 1 --family convolution,matmul
// (b) 2026-11-29, an EPYC with AVX2, 2 cores beside other work, one thread, the methods beside each other:
//       python tools/conv_methods.py, also --result backward_input and backward_weight
// A number without a letter was set beside the ones around it and not measured by itself. A hash names the commit whose
// message has the figures.
#pragma once

#include <cstdint>

namespace facula::cpu::tuning {

// ---- convolution: where a method pays ----

// NHWC products and Winograd work by panels of channels; with fewer most of a panel is computed in vain. (b) 3 x 3 of
// 4x28x28: of 12 channels NHWC 146 us, row tiles 127, Winograd 169; of 16 they take 186, 213 and 184.
inline constexpr int64_t kNhwcMinChannels = 16, kWinogradMinChannels = 16;
// (b) 64 channels, tiles of 2 x 2: of 25 Winograd 94 us and the NHWC product 97, of 36 they take 113 and 130.
inline constexpr int64_t kWinogradMinTiles = 32;
// The same for results that are each image's own, where the batch must not count: images of 7 x 7 and more.
inline constexpr int64_t kWinogradImageTiles = 16;
// Shortest and longest rows of results: shorter leave a register tile empty ((b) with a stride even rows of 2 pay: 21
// us for 52), longer do not leave an input tile in the second-level cache. c6bfa02: (a) 3 x 3 stride 2 takes 1.01.
inline constexpr int64_t kNhwcMinWidth = 4, kNhwcMaxWidth = 1024;
inline constexpr int64_t kNhwcMaxWeightTaps = 32;  // of more the sums leave the second-level cache

// NHWC images of fewer channels; windows of more elements leave the first-level cache; output channels come in whole
// vectors of AVX-512. b6cee02: (a) 7 x 7 stride 2 takes 0.7, 1.7 before. (b) of 8 channels 88 us, of 16 as long as
// NHWC.
inline constexpr int64_t kSmallChannelsEnd = 16, kSmallChannelsMaxWindow = 1024, kSmallChannelsMultiple = 16;

// Groups of so few output channels are summed row by row. (b) On AVX2 that holds for none: with 2 to 6 of eight input
// channels direct takes 2.2 to 4.4 times as long as row tiles.
inline constexpr int64_t kDirectMaxOutChannels = 6;

// Gathering a panel of windows costs as much as its products with some 12 output channels: windows are read in place
// where less than that is computed in vain. abd5ab2: (a) what gathering cost was a third of 7 x 7 stride 2. (b) Rows of
// 14 to 96 output channels: row tiles 166 us, gathered 151; to 64 they take 114 and 123.
inline constexpr int64_t kGatherInProducts = 12;
inline constexpr int64_t kInPlaceMinDepth = 64;  // taps that repay the seams between rows

// Taps by channels of longer sums of float32, whose runs add up in double, and taps of such a run. Winograd's method
// comes first, which sums fewer terms at a time and takes a third of the time.
inline constexpr int64_t kLongConv = 1 << 14, kLongConvRun = 128;

// Kernels about as large as the image, whose results are few: rows of taps pay from so many taps on, where rows of
// results are shorter than half of that, for so many output channels. Adding to the places of the gradient of the input
// pays where gathering asks so many times the taps; by a product of matrices, from so many output channels on.
inline constexpr int64_t kSmallResultsRow = 64, kSmallResultsChannels = 4;
inline constexpr double kScatterExcess = 8, kColumnsExcess = 4;
inline constexpr int64_t kColumnsMinOutputs = 8, kColumnsElements = 1 << 18, kColumnsMostElements = 1 << 22;
// A row of results asks which taps meet the image where there are so many.
inline constexpr int64_t kClippedTaps = 512;

// Gradients of distances go through a product of matrices from so many dims and rows on both sides on.
inline constexpr int64_t kProductDims = 16, kProductRows = 26;

// Where a padded copy, or products with it, would be so many times what is given and asked for, and beyond so many
// elements at all. 9d8e3cb: it bounds memory and work and is no matter of speed.
inline constexpr double kPaddingTimes = 16, kPaddingElements = 4096;

// 1 x 1 of NCHW images: panels are read in place from so many panels of positions on, where rows of channels take no
// more than so many ways of a second-level cache of 1024 sets. b6cee02: (a) 1 x 1 forward takes 0.95, 1.35 when copied.
inline constexpr int64_t kPointwiseMinPanels = 8, kPointwiseWays = 4, kPointwiseSets = 1024;
// From so many panels of output channels on results are written in long runs; below, a panel of the image stays in the
// first-level cache over all of them.
inline constexpr int64_t kPointwiseTallPanels = 8;

// ---- convolution: how much at a time ----

// Multiplications that a piece for a thread should have: in general, of methods that work by tiles, of depthwise planes
// and of depthwise NHWC rows.
inline constexpr int64_t kConvWork = 1 << 21, kConvTileWork = 1 << 20;
inline constexpr int64_t kDepthwiseWork = 1 << 19, kDepthwiseRowWork = 1 << 18;

// Implicit products: panels of positions that are gathered at a time; positions, for the gradient of the weight. With
// fewer panels of taps the batch is cut too, in at most so many pieces.
inline constexpr int64_t kGatherPanels = 8, kGatherPositions = 256;
inline constexpr int64_t kWeightMinColumns = 16, kWeightMaxBatchPieces = 8;

// Row tiles stay in the second-level cache beside the weights: bytes of an input tile; of one whose neighbours read
// much of it too; multiplications of one; bytes that are fetched at a time. abd5ab2, a4b9019, 18c272b: (a) 7 x 7
// stride 2 of three channels takes 0.75, 1.15 before.
inline constexpr int64_t kRowTileBytes = 1 << 17, kRowTileMaxBytes = 1 << 19;
inline constexpr int64_t kRowTileWork = 1 << 24, kRowTileFetch = 1 << 13;
inline constexpr int64_t kSmallChannelsRows = 8;  // rows of results of a tile

// NHWC products: results of a row tile. Gradient of the weight: pixels whose products are summed at a time; from so
// many on another piece is summed apart; with so few taps a unit of work takes so many blocks of channels. c1205b3,
// c6bfa02: (a) 1 x 1 gradient of the input 0.84, 3 x 3 stride 2 gradients of input 0.70 and weight 0.88.
inline constexpr int64_t kNhwcTilePixels = 96, kNhwcWeightPixels = 384, kNhwcWeightPiecePixels = 256;
inline constexpr int64_t kNhwcWeightWideTaps = 2, kNhwcWeightWideBlocks = 4;
// Pieces times units of work of a gradient of the weight: enough for threads, few where there is little to sum.
inline constexpr int64_t kWeightMinUnits = 8, kWeightMaxUnits = 16;

// 1 x 1: bytes of an NCHW image at a time, in at most so many panels; pixels of an NHWC image (8 tiles of 14 rows).
// 11f9f12: (a) copying the pixels took a fifth of the time.
inline constexpr int64_t kPointwiseBytes = 1 << 18, kPointwiseMaxPanels = 16, kPointwisePixels = 112;

// Winograd: bytes of transformed tiles in the second-level cache, and their least and largest number; tiles of a piece
// of the gradient of the weight; pieces of output channels a thread, where images are few. 28c2cf9: (a) 3 x 3 of 64
// channels takes 0.72 forward and 0.54 both ways.
inline constexpr int64_t kWinogradBytes = 1 << 20, kWinogradFewTiles = 14, kWinogradManyTiles = 128;
inline constexpr int64_t kWinogradPieceTiles = 128, kWinogradCuts = 3;

inline constexpr int64_t kBiasPixels = 256,
                         kBiasPieces = 64;  // gradients that are summed in T; sums of those in double

// ---- matrix products ----

inline constexpr int64_t kGemmWork = 1 << 21;  // multiplications that a piece for a thread should have
// A batch of few products of so many multiplications is split inside them, else side by side.
inline constexpr int64_t kSplitWork = 4 * kGemmWork;
// A small product takes the time of so many multiplications at least, the more where its factors are brought into
// tiles first (c7356ab, 369f60e: (a) bfloat16 batches of 16 x 16 take 0.55, 2.4 before).
inline constexpr int64_t kSmallProduct = 1 << 12, kSmallTiledProduct = 1 << 14;
// A factor that is read in so few panels is multiplied where it lies: B by panels of rows, A by tiles of columns.
// 9e11370: (a) squares of 64 to 2048 take 0.8 to 1.0 in float32.
inline constexpr int64_t kUnpackedPanels = 6, kUnpackedTiles = 4;
inline constexpr int64_t kSharedElements = int64_t{1} << 24;  // of B that are packed at once when threads share them
inline constexpr int64_t kShareWork = 64;      // times kGemmWork; below, each thread packs the columns that it needs
inline constexpr int64_t kPiecesOfThread = 8;  // so that a thread whose core is busy does not hold up the others
// Rows of B that are read together, and panels of columns of them: a stream the hardware can follow (3834b37).
inline constexpr int64_t kPackRows = 8, kPackPanels = 32;

// Depths of longer products of which the sums are made in double (256 x 20000 x 256 takes 1.3 of its time so); that are
// summed in registers then, which panels would hold more of; and that are summed at a time of a complex product with a
// vector.
inline constexpr int64_t kGemmLong = 65536, kGemmDepth = 4096, kGemmTerms = 128, kGemvDepth = 256;

// bfloat16 in tile registers: row panels of a group and their bytes in the second-level cache; depths of a slice whose
// columns stay in the first. 73f03c2, 9db3f81: (a) 2048 x 2048 takes 0.72, 1.08 before.
inline constexpr int64_t kAmxGroupPanels = 16, kAmxGroupBytes = 768 << 10, kAmxSlice = 16;

// Matrix times vector: larger ones come from memory and are fetched so many bytes ahead, by rows and by columns.
// 539085f: (a) 256 x 256 doubles take 4.3 us, 5.3 when they were fetched too.
inline constexpr int64_t kGemvFarBytes = 1 << 20, kGemvAheadRows = 1024, kGemvAheadColumns = 512;
inline constexpr int64_t kGemvColumns = 2048;   // whose sums stay in the first-level cache
inline constexpr int64_t kGemvRunBytes = 8192;  // of a thread's columns: whole pages are read ahead (b5af49b)

// ---- pooling ----

// NHWC: channels that a piece of the backward passes takes. 1e6672b: (a) average 2 x 2 takes 0.50 both ways.
inline constexpr int64_t kPoolChannels = 64;
// Elements of a piece for a thread: of planes, of NHWC rows, of runs of channels.
inline constexpr int64_t kPoolPlaneWork = 32768, kPoolRowWork = 8192, kPoolRunWork = 16384;

}  // namespace facula::cpu::tuning
