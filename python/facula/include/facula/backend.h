/* The device interface: what a package hands to facula to bring a device. docs/vendors.md is the contract.
 *
 * Plain C structures of fixed layout, so that a package built once serves many versions of facula: it
 * links with nothing of facula, and both sides tell each other which version of this file they saw. */
#ifndef FACULA_BACKEND_H
#define FACULA_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a structure below changes in a way that older packages would not survive. Fields are
 * only ever added at the end, which `size` tells and needs no new number. */
#define FACULA_BACKEND_ABI 1

/* ---- status of every call; the text goes through FaculaHost.fail ---- */
enum {
  FACULA_OK = 0,
  FACULA_OUT_OF_MEMORY = 1,  /* OutOfMemoryError; an allocation is tried again with the caches emptied */
  FACULA_NOT_SUPPORTED = 2,  /* this call (its dtype, say) is not mine: take the next way */
  FACULA_DEVICE_ERROR = 3,   /* RuntimeError: a kernel of now or of earlier failed */
  FACULA_VALUE_ERROR = 4,
  FACULA_INDEX_ERROR = 5,
  FACULA_ZERO_DIVISION = 6,
  FACULA_NOT_READY = 7       /* of queries: work is still under way */
};

/* ---- dtypes ---- */
enum {
  FACULA_BOOL, FACULA_UINT8, FACULA_INT8, FACULA_INT16, FACULA_INT32, FACULA_INT64,
  FACULA_FLOAT16, FACULA_BFLOAT16, FACULA_FLOAT32, FACULA_FLOAT64, FACULA_COMPLEX64, FACULA_COMPLEX128,
  FACULA_UINT16, FACULA_UINT32, FACULA_UINT64, FACULA_FLOAT8_E4M3FN, FACULA_FLOAT8_E5M2,
  FACULA_DTYPES
};
#define FACULA_DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))
/* The first twelve; a device that has tensors of later ones names them. */
#define FACULA_ALL_DTYPES ((UINT64_C(1) << FACULA_UINT16) - 1)

/* ---- arguments of kernels: valid during the call; copy what runs later ---- */
enum {
  FACULA_CONTIGUOUS = 1,
  FACULA_HOST_SCALAR = 2 /* one element in host memory: read `data` during the call; strides are 0 */
};
typedef struct FaculaTensor {
  void* data;             /* the first element */
  const int64_t* sizes;
  const int64_t* strides; /* in elements */
  int64_t numel;
  int32_t ndim;
  int32_t dtype;
  int32_t index; /* of the device; -1 for the host */
  uint32_t flags;
  const void* handle; /* facula's own */
} FaculaTensor;

enum {
  FACULA_NONE,        /* an optional argument that is absent */
  FACULA_TENSOR,      /* tensors[0] */
  FACULA_TENSORS,     /* tensors[0 .. count); absent ones of `Tensor?[]` have ndim -1 */
  FACULA_INT,         /* i */
  FACULA_FLOAT,       /* f */
  FACULA_TRUTH,       /* i */
  FACULA_COMPLEX,     /* f, imag */
  FACULA_STRING,      /* text, `count` bytes and a zero */
  FACULA_DTYPE,       /* i */
  FACULA_DEVICE,      /* i: the index */
  FACULA_FORMAT,      /* i: contiguous, preserve, channels_last, channels_last_3d */
  FACULA_RANDOM,      /* seed, offset: the key of a Philox 4x32-10 stream that is this call's own */
  FACULA_INTS,        /* ints[0 .. count) */
  FACULA_TRUTHS       /* ints[0 .. count), 0 or 1 */
};
typedef struct FaculaValue {
  int32_t kind;
  int32_t count;
  union {
    const FaculaTensor* tensors;
    int64_t i;
    double f;
    const char* text;
    const int64_t* ints;
    uint64_t seed;
  } at;
  union {
    double imag;
    uint64_t offset;
  } more;
} FaculaValue;

/* An operator's kernel. `args` are those of its signature in ops.json, in order, then its results,
 * which facula has made: shapes, dtypes and the device have been checked. Empty tensors come too. */
typedef struct FaculaCall {
  const char* op; /* "cumsum", "max.dim" */
  const FaculaValue* args;
  int32_t nargs;       /* the results included */
  int32_t nouts;       /* results among them, the last ones */
  FaculaValue* result; /* to fill in where the operator's result is a number */
  void* stream;
  int32_t index;
  int32_t reserved;
} FaculaCall;
typedef int32_t (*FaculaKernel)(void* context, const FaculaCall* call);
typedef struct FaculaKernelEntry {
  const char* op;
  FaculaKernel kernel;
} FaculaKernelEntry;

/* Any pointwise operator, backward ones included: out = formula(in ...) element by element. Inputs
 * have dtypes of their own and the outputs' shape (stride 0 where they are broadcast); the formula is
 * evaluated in `compute`. Conversions are C's: to bool is `!= 0`, complex to real takes the real part.
 * `op` and `variant` name a formula of facula.backends.translate; "copy" is out = in. */
typedef struct FaculaPointwise {
  const char* op;
  const char* variant; /* the formula of several that a str argument chose, or "" */
  const FaculaTensor* ins;
  const FaculaTensor* outs;
  const FaculaValue* values; /* the numbers among the arguments, in order; FACULA_NONE when absent */
  int32_t nins, nouts, nvalues;
  int32_t compute;
  uint32_t masks; /* bit i: input i is read as bool, whatever its dtype */
  int32_t index;
  void* stream;
} FaculaPointwise;

/* Pointwise calls that `facula.compile` joined. The group has values, each with a dtype: the first `ninputs` are what
 * `tensors` hold, others are made by one step each. A step is what FaculaPointwise says, with values in the place of
 * tensors: it reads its inputs as `compute` (or bool), and rounds what it makes to the value's dtype, though that may never
 * go to memory. The last `noutputs` of `tensors` take the values `stored`. All tensors have one shape (stride 0 where they
 * are broadcast); an output may lie exactly where an input does.
 * A step with `nreduced` is an operator over the last dims, one of the backend's `group_rows`: its one input is taken
 * along them to a value that has one element for all of them (of "softmax" and its like an element each). Where an
 * output has stride 0 along those dims, it is written once. Groups with such steps write to no memory that they read. */
typedef struct FaculaStep {
  const char* op;
  const char* variant;
  const FaculaValue* values;
  const int32_t* outs; /* values that it makes */
  const int32_t* ins;  /* and reads */
  int32_t nouts, nins, nvalues;
  int32_t compute;
  uint32_t masks;
  int32_t nreduced; /* 0: a call of the pointwise template; else a number of dims, the same in all steps that have one */
} FaculaStep;
enum { FACULA_WAIT = 1 /* build what the group needs now, rather than answer FACULA_NOT_READY */ };
typedef struct FaculaGroup {
  uint64_t id; /* groups with one number differ in addresses, strides, sizes and numbers at most */
  const FaculaTensor* tensors; /* inputs, then outputs */
  const int32_t* stored;       /* for each output: the value that goes there when all steps are done */
  const int32_t* dtypes;       /* of the values */
  const FaculaStep* steps;
  int32_t ninputs, noutputs, nvalues, nsteps;
  int32_t index;
  uint32_t flags;
  void* stream;
} FaculaGroup;

/* Any operator that reduces dims. The last `nreduced` dims of `in` are reduced to one element of
 * `out`, whose dims are the others. `op` names a reduction of facula.backends.translate. */
typedef struct FaculaReduction {
  const char* op;
  const FaculaTensor* in;
  const FaculaTensor* out;
  int32_t nreduced;
  int32_t compute; /* the dtype of the accumulator */
  int32_t index;
  int32_t reserved;
  void* stream;
} FaculaReduction;

#define FACULA_HOST (-1)
/* Bytes between host and device, within a device or between two of one type, in the stream's order. It
 * may return before they are there: facula keeps the memory until they are. */
typedef struct FaculaCopy {
  void* dst;
  const void* src;
  size_t nbytes;
  int32_t dst_index, src_index; /* FACULA_HOST for host memory */
  void* stream;                 /* of the device that is not the host; of src between two */
} FaculaCopy;

typedef struct FaculaProperties {
  char name[128];
  uint64_t total_memory;
  int32_t major, minor;
  int32_t processors;
  int32_t reserved;
} FaculaProperties;

/* ---- what the device can do ---- */
enum {
  FACULA_CACHING = 1,        /* allocate() is slow: facula keeps freed blocks, by stream */
  FACULA_CPU_FALLBACK = 2,   /* operators without a kernel run on the CPU, counted */
  FACULA_FORK_SAFE = 4,      /* may be used in a child process after fork() */
  FACULA_DETERMINISTIC = 8,  /* the same call gives the same bits */
  FACULA_HOST_MEMORY = 16    /* the host may read the memory when the device is idle */
};

/* ---- collectives between processes, one device each; optional ---- */
enum {
  FACULA_ALL_REDUCE,
  FACULA_REDUCE,         /* to `peer`; the others' dst is not written */
  FACULA_BROADCAST,      /* from `peer`; the others' src is their dst */
  FACULA_ALL_GATHER,     /* dst has room for `count` elements of each process, in order */
  FACULA_REDUCE_SCATTER, /* src has `count` elements for each process */
  FACULA_SEND,           /* to `peer`; dst is null */
  FACULA_RECEIVE         /* from `peer`; src is null */
};
enum { FACULA_OP_SUM, FACULA_OP_PRODUCT, FACULA_OP_MIN, FACULA_OP_MAX, FACULA_OP_MEAN };
typedef struct FaculaCollective {
  int32_t kind;
  int32_t op; /* of the three that reduce */
  int32_t dtype;
  int32_t peer; /* rank in the communicator */
  const void* src; /* dense, on the device; may be dst */
  void* dst;
  size_t count; /* elements of one process */
} FaculaCollective;
/* Functions as those of FaculaBackend below, with its context. A communicator is yours. */
typedef struct FaculaCollectives {
  const char* name; /* "nccl": users give it as `backend` */
  /* Is the library there? `version` for messages; the text of a failure says what to install. */
  int32_t (*version)(void* context, int32_t* version);
  /* FACULA_NOT_SUPPORTED where it does not reduce the dtype so, or where a NaN would get lost. */
  int32_t (*reduces)(void* context, int32_t op, int32_t dtype);
  /* What one process makes and the others of a communicator get: at most `*size` bytes, which it sets. */
  int32_t (*make_id)(void* context, char* id, size_t* size);
  /* Returns when all `ranks` processes have called it. */
  int32_t (*join)(void* context, int32_t index, const char* id, size_t size, int32_t ranks, int32_t rank,
                  void** communicator);
  /* Puts the calls into the stream as one: none waits for another. It may wait for the other processes. */
  int32_t (*run)(void* context, void* communicator, const FaculaCollective* calls, int32_t ncalls, void* stream);
  /* Has something failed since? Called by another thread, as abort is. */
  int32_t (*query)(void* context, void* communicator);
  int32_t (*leave)(void* context, void* communicator); /* all do, when their work is done */
  /* Ends it and what is under way, in place of `leave`: kernels return, and a `run` that waits does. */
  int32_t (*abort)(void* context, void* communicator);
} FaculaCollectives;

/* What another process of this machine opens memory or an event by; the backend alone reads it. */
typedef struct FaculaShared {
  unsigned char bytes[64];
} FaculaShared;

/* Every function takes `context` first and returns a status. They are called from any thread, without
 * Python's lock. Functions that are optional may be null. Streams and events are pointers of yours;
 * the null stream is each device's default. */
typedef struct FaculaBackend {
  uint32_t abi;  /* FACULA_BACKEND_ABI */
  uint32_t size; /* sizeof(FaculaBackend) */
  const char* name;
  const char* package; /* name and version, for messages */
  void* context;
  uint64_t flags;
  uint64_t dtypes; /* FACULA_DTYPE_BIT of those that tensors may have */

  int32_t (*initialize)(void* context); /* before the first use, once; optional */
  int32_t (*device_count)(void* context, int32_t* count);
  int32_t (*properties)(void* context, int32_t index, FaculaProperties* out); /* optional */

  /* Memory: at least 64-byte aligned. `stream` is the one that uses it first, or used it last. */
  int32_t (*allocate)(void* context, int32_t index, size_t nbytes, void* stream, void** out);
  int32_t (*deallocate)(void* context, int32_t index, void* data, size_t nbytes, void* stream);
  int32_t (*copy)(void* context, const FaculaCopy* copy);
  int32_t (*pin)(void* context, size_t nbytes, void** out);           /* host memory; optional */
  int32_t (*unpin)(void* context, void* data, size_t nbytes);         /* with pin */
  int32_t (*memory_info)(void* context, int32_t index, uint64_t* free, uint64_t* total); /* optional */

  /* Streams and events: optional as a whole, for a device whose calls return when all is done. */
  int32_t (*create_stream)(void* context, int32_t index, int32_t priority, void** out);
  int32_t (*synchronize_stream)(void* context, int32_t index, void* stream);
  int32_t (*query_stream)(void* context, int32_t index, void* stream);
  int32_t (*synchronize_device)(void* context, int32_t index);
  int32_t (*create_event)(void* context, int32_t index, int32_t timing, void** out);
  int32_t (*destroy_event)(void* context, int32_t index, void* event);
  int32_t (*record_event)(void* context, int32_t index, void* event, void* stream);
  int32_t (*wait_event)(void* context, int32_t index, void* event, void* stream);
  int32_t (*query_event)(void* context, int32_t index, void* event);
  int32_t (*synchronize_event)(void* context, int32_t index, void* event);
  int32_t (*elapsed)(void* context, int32_t index, void* start, void* end, double* milliseconds);

  /* Graphs: work recorded once and launched many times; optional as a whole. */
  int32_t (*begin_capture)(void* context, int32_t index, void* stream);
  int32_t (*end_capture)(void* context, int32_t index, void* stream, void** graph);
  int32_t (*launch_graph)(void* context, int32_t index, void* graph, void* stream);
  int32_t (*destroy_graph)(void* context, int32_t index, void* graph);

  /* Kernels: two templates and a list. */
  int32_t (*pointwise)(void* context, const FaculaPointwise* call); /* optional */
  int32_t (*reduction)(void* context, const FaculaReduction* call); /* optional */
  const FaculaKernelEntry* kernels;
  size_t nkernels;

  /* Around every call of a kernel while profiling is on; optional. */
  int32_t (*range_push)(void* context, const char* name);
  int32_t (*range_pop)(void* context);

  /* Autocast: "bfloat16" or "float16", null for the first that the device has; and operators that
     run in it, or in float32, whatever facula's own lists say. Lists end in null and may be null. */
  const char* autocast_dtype;
  const char* const* autocast_lower;
  const char* const* autocast_float32;
  const char* serialization_tag;           /* what files say for the device; null: the name */

  /* Addresses first, memory behind them later: optional as a whole, for FACULA_CACHING. `reserve` gives a range about as
     large as the device's memory (20 MiB at least), at 2 MiB or a multiple; `map` puts memory behind `nbytes` of it, 2 or
     20 MiB, and `unmap` takes it away from the same bytes, when the device has nothing to do. Ranges stay for ever. */
  int32_t (*reserve)(void* context, int32_t index, void** address, size_t* nbytes);
  int32_t (*map)(void* context, int32_t index, void* address, size_t nbytes);
  int32_t (*unmap)(void* context, int32_t index, void* address, size_t nbytes);

  int32_t dlpack_type; /* DLDeviceType by which other libraries name this memory; 0: it is not shared */
  int32_t reserved;
  const FaculaCollectives* collectives; /* must stay; null: tensors go by the host */

  /* A group as one kernel; optional. FACULA_NOT_READY: not yet, it is being built. That and FACULA_NOT_SUPPORTED make
     facula call `pointwise` step by step. */
  int32_t (*group)(void* context, const FaculaGroup* group);
  /* Operators over last dims that `group` takes as steps ("sum", "amax", "softmax"): a list that ends in null and stays.
     Null: none, groups end where dims are reduced. */
  const char* const* group_rows;

  /* Memory for other processes: optional as a whole. `share_memory` is of what `allocate` gave at `data`; `open_memory` gives
     it to another process, as often as it asks, and `close_memory` takes one of these back, the work there being done. The
     events have no time and are destroyed as others are; null: facula waits for the device before it shares memory. */
  int32_t (*share_memory)(void* context, int32_t index, void* data, FaculaShared* out);
  int32_t (*open_memory)(void* context, int32_t index, const FaculaShared* memory, void** out);
  int32_t (*close_memory)(void* context, int32_t index, void* data);
  int32_t (*create_shared_event)(void* context, int32_t index, void** out, FaculaShared* shared);
  int32_t (*open_event)(void* context, int32_t index, const FaculaShared* shared, void** out);
} FaculaBackend;

/* ---- what facula gives the package ---- */
typedef struct FaculaHost {
  uint32_t abi;
  uint32_t size;
  const char* version; /* of facula */
  /* Copies the structure; strings, tables and functions must stay. */
  int32_t (*register_backend)(const FaculaBackend* backend);
  int32_t (*register_kernel)(const char* backend, const char* op, FaculaKernel kernel);
  /* Notes the text of an error for this thread and returns the status. */
  int32_t (*fail)(int32_t status, const char* text);
  /* Memory for the time of a kernel, from facula's cache where there is one. */
  int32_t (*allocate)(const char* backend, int32_t index, size_t nbytes, void* stream, void** out);
  int32_t (*deallocate)(const char* backend, int32_t index, void* data, size_t nbytes, void* stream);
} FaculaHost;

/* What a library exports for facula.backends.load_library(); it registers one backend or more. */
typedef int32_t (*FaculaEntry)(const FaculaHost* host);
#define FACULA_ENTRY_NAME "facula_register_backends"
#if defined(_WIN32)
#define FACULA_EXPORT __declspec(dllexport)
#else
#define FACULA_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
