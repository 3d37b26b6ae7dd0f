// Thresholds of convolution, matrix products and pooling that were chosen by measurement: where a method pays, and how
// much it takes at a time. What only has to be right (sizes of tiles in registers, of buffers) stays in its own file.
//
// Where no other note stands a number is of 2026-11-28, one core of an AMD EPYC with AVX-512 (48 kB and 1 MB of cache
// a core), facula beside torch 2.13, from the rows of
//   python tools/bench --family convolution --threads 1          kernels of 1, 3, 5 and 7, both memory formats
//   python tools/bench --family products --threads 1             gemm
// A convolution's methods are compared with each other by FACULA_CONV_FORWARD, FACULA_CONV_BACKWARD_INPUT and
// FACULA_CONV_BACKWARD_WEIGHT (docs/contributors.md).
#pragma once

#include <cstdint>

namespace facula::cpu::tuning {

// ---- convolution: where a method pays ----

// Panels of channels are 16 floats wide on AVX-512: with fewer channels most of a panel is computed in vain.
inline constexpr int64_t kNhwcMinChannels = 16;
// Rows of results that fill a register tile; longer ones would not leave a row tile in the second-level cache.
inline constexpr int64_t kNhwcMinWidth = 4, kNhwcMaxWidth = 1024;
// More taps have sums that leave the second-level cache.
inline constexpr int64_t kNhwcMaxWeightTaps = 32;

// Winograd: the transforms are repaid by products of so many channels, the filters' by so many tiles.
inline constexpr int64_t kWinogradMinChannels = 16, kWinogradMinTiles = 32;

// Small channels, NHWC: more fill panels of the NHWC product; windows of more elements leave the first-level cache.
inline constexpr int64_t kSmallChannelsEnd = 16, kSmallChannelsMaxWindow = 1024;
inline constexpr int64_t kSmallChannelsWidth = 16;  // output channels come in whole vectors

// Direct: groups of so few output channels leave panels of a product mostly empty.
inline constexpr int64_t kDirectMaxOutChannels = 6;

// Gathering a panel of windows costs as much as the products of some 12 output channels with it: windows are read in
// place where fewer products than that are computed in vain, and where the depth repays the seams of rows.
inline constexpr int64_t kGatherInProducts = 12, kInPlaceMinDepth = 64;

// Unpadded: where a padded copy, or products with it, would be so many times what is given and asked for, and beyond
// so many elements at all.
inline constexpr double kPaddingTimes = 16, kPaddingElements = 4096;

// Pointwise, NCHW: panels are read in place from so many panels of positions on, and where rows of channels take no
// more than so many ways of a second-level cache of 1024 sets.
inline constexpr int64_t kPointwiseMinPanels = 8, kPointwiseWays = 4, kPointwiseSets = 1024;
// From so many panels of output channels on results are written in long runs; below, a panel of the image stays in the
// first-level cache over all of them.
inline constexpr int64_t kPointwiseTallPanels = 8;

// ---- convolution: how much at a time ----

inline constexpr int64_t kConvWork = 1 << 21;          // multiplications that a piece for a thread should have
inline constexpr int64_t kConvTileWork = 1 << 20;      // the same of the methods that work by tiles
inline constexpr int64_t kDepthwiseWork = 1 << 19;     // of depthwise planes
inline constexpr int64_t kDepthwiseRowWork = 1 << 18;  // of depthwise rows, NHWC

inline constexpr int64_t kGatherPanels = 8;          // panels of output positions that are gathered at a time
inline constexpr int64_t kGatherPositions = 256;     // depth of the panels of the gradient of the weight
inline constexpr int64_t kWeightMinColumns = 16;     // panels of taps; with fewer the batch is cut too,
inline constexpr int64_t kWeightMaxBatchPieces = 8;  // in at most so many pieces

// Row tiles: an input tile stays in the second-level cache beside the weights (2026-11-28: 7 x 7 stride 2 of three
// channels takes 0.75 of torch's time, 1.15 when windows were gathered). Bytes of one; of one whose neighbours read
// much of it too; multiplications of one; bytes that are fetched at a time.
inline constexpr int64_t kRowTileBytes = 1 << 17, kRowTileMaxBytes = 1 << 19;
inline constexpr int64_t kRowTileWork = 1 << 24, kRowTileFetch = 1 << 13;

inline constexpr int64_t kNhwcTilePixels = 96;                       // results of an NHWC row tile
inline constexpr int64_t kNhwcWeightPixels = 384;                    // whose products are summed at a time
inline constexpr int64_t kNhwcWeightPiecePixels = 256;               // from so many on another piece is summed apart
inline constexpr int64_t kNhwcWeightWideTaps = 2;                    // with so few taps a unit takes
inline constexpr int64_t kNhwcWeightWideBlocks = 4;                  // so many blocks of channels
inline constexpr int64_t kWeightMinUnits = 8, kWeightMaxUnits = 16;  // of work, beside the pieces
inline constexpr int64_t kSmallChannelsRows = 8;                     // rows of results of a tile

inline constexpr int64_t kPointwiseBytes = 1 << 18;  // of an NCHW image that are taken at a time
inline constexpr int64_t kPointwiseMaxPanels = 16;   // panels of positions in these
inline constexpr int64_t kPointwisePixels = 112;     // of an NHWC image: 8 tiles of 14 rows

// Winograd: tiles that are transformed at a time fit the second-level cache.
inline constexpr int64_t kWinogradBytes = 1 << 20, kWinogradFewTiles = 14, kWinogradManyTiles = 128;
inline constexpr int64_t kWinogradPieceTiles = 128;  // gradient of the weight: a piece that is summed apart
inline constexpr int64_t kWinogradCuts = 3;          // pieces of output channels a thread, where images are few

inline constexpr int64_t kBiasPixels = 256, kBiasPieces = 64;  // gradients that are summed in T; sums in double

// ---- matrix products ----

inline constexpr int64_t kGemmWork = 1 << 21;  // multiplications that a piece for a thread should have
// A product is split inside from so many times that on (and where the batch has few), else side by side.
inline constexpr int64_t kSplitWork = 4 * kGemmWork;
// A small product takes the time of so many multiplications at least, the more where its factors are brought into
// tiles first (2026-11-28: "Small bfloat16 products are worth a second thread").
inline constexpr int64_t kSmallProduct = 1 << 12, kSmallTiledProduct = 1 << 14;
// Packing A or B: one that is read in so few panels is multiplied where it lies.
inline constexpr int64_t kUnpackedPanels = 6, kUnpackedTiles = 4;
inline constexpr int64_t kSharedElements = int64_t{1} << 24;  // of B that are packed at once when threads share them
inline constexpr int64_t kShareWork = 64;      // times kGemmWork: below, each thread packs the columns it needs
inline constexpr int64_t kPiecesOfThread = 8;  // so that a busy core does not hold up the others
// Rows of B that are read together, and panels of columns of them (2026-11-28: "a stream the hardware can follow").
inline constexpr int64_t kPackRows = 8, kPackPanels = 32;

// bfloat16 in tile registers (2026-11-28, a Xeon with AMX: 2048 x 2048 takes 0.72 of torch's time, 1.08 before the
// columns were fetched evenly): row panels of a group and their bytes in the second-level cache; depths of a slice
// whose columns stay in the first.
inline constexpr int64_t kAmxGroupPanels = 16, kAmxGroupBytes = 768 << 10, kAmxSlice = 16;

// Matrix times vector (2026-11-28: 256 x 256 doubles take 4.3 us, 5.3 when all matrices were fetched ahead): larger
// ones come from memory and are fetched so many bytes ahead, by rows and by columns.
inline constexpr int64_t kGemvFarBytes = 1 << 20, kGemvAheadRows = 1024, kGemvAheadColumns = 512;
// Columns of sums that stay in the first-level cache.
inline constexpr int64_t kGemvColumns = 2048;
// Columns are shared out in runs of whole pages, which the hardware reads ahead.
inline constexpr int64_t kGemvRunBytes = 8192;

// ---- pooling ----

inline constexpr int64_t kPoolChannels = 64;  // NHWC, that a piece of the backward passes takes
inline constexpr int64_t kPoolPlaneWork = 32768, kPoolRowWork = 8192, kPoolRunWork = 16384;  // elements of a piece

}  // namespace facula::cpu::tuning
