/* falaj/runtime.h — the C interface of a model runtime that Falaj opens at run time.
 *
 * A runtime is a shared library with one function, falaj_runtime(), that returns a table of
 * functions. The server is told of it by the setting `serving.runtimes` and uses it for the
 * Deployments that name it; nothing of Falaj is rebuilt for it. docs/guides/runtimes.md shows one
 * from its first line to the first prediction.
 *
 * Rules
 * - Everything that is passed belongs to whoever passed it and is valid until the call returns.
 * - load, run and unload of different sessions, and run of the same session, are called from
 *   several threads at once. unload is called when no run of that session goes on.
 * - A function that fails returns 0 (or NULL) and writes why, zero-ended, into `error`, which holds
 *   FALAJ_ERROR_BYTES. It must not exit, abort, or throw through the interface.
 * - What it is given to load was verified by the server (digest, signature, zone) and read once in
 * a confined process. Values of the tensors are what clients sent: any bits.
 *
 * The version rises only when an old library could no longer be used. Fields are added at the end;
 * `size` says how many of them a library knows.
 */
#ifndef FALAJ_RUNTIME_H
#define FALAJ_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FALAJ_RUNTIME_VERSION 1u
#define FALAJ_ERROR_BYTES 512u
#define FALAJ_RANK_MAX 8u

/* A tensor: little-endian, row-major. `datatype` is a word of the Open Inference Protocol ("FP32",
 * "INT64", "BOOL", …; not "BYTES", which Falaj does not hand to these libraries). */
typedef struct FalajTensor {
  const char* name;
  const char* datatype;
  const int64_t* shape;
  size_t rank;
  const void* bytes; /* Aligned for its elements; may be NULL when bytes_size is 0. */
  size_t bytes_size;
} FalajTensor;

/* An input or output as the model declares it. A dimension of -1 is free. */
typedef struct FalajTensorSpec {
  char name[256];
  char datatype[8];
  int64_t shape[FALAJ_RANK_MAX];
  size_t rank;
} FalajTensorSpec;

/* Takes the outputs of one run: call give() once for each, in the order of the model's outputs. It
 * copies. Returns 0 when the server wants no more of them: then end the run. */
typedef struct FalajOutputs {
  void* context;
  int (*give)(void* context, const FalajTensor* tensor);
} FalajOutputs;

typedef struct FalajSession FalajSession; /* The library's own. */

typedef struct FalajRuntime {
  uint32_t version; /* FALAJ_RUNTIME_VERSION of the header that it was built with. */
  size_t size;      /* sizeof(FalajRuntime) of it. */
  const char* name; /* "openvino" */
  const char* name_version;

  /* Loads an ONNX model of so many bytes, for at most `threads` threads of its own. */
  FalajSession* (*load)(const void* model, size_t model_size, uint32_t threads, char* error);
  void (*unload)(FalajSession* session);
  size_t (*input_count)(const FalajSession* session);
  size_t (*output_count)(const FalajSession* session);
  /* `index` is below the count. Returns 0 when it cannot tell. */
  int (*input)(const FalajSession* session, size_t index, FalajTensorSpec* spec, char* error);
  int (*output)(const FalajSession* session, size_t index, FalajTensorSpec* spec, char* error);
  /* `inputs` has every input once, in the model's order, of its datatype, its rank and its shape.
   */
  int (*run)(FalajSession* session, const FalajTensor* inputs, size_t count,
             const FalajOutputs* outputs, char* error);
} FalajRuntime;

/* The one symbol that is looked up. Never NULL; valid as long as the process runs. */
const FalajRuntime* falaj_runtime(void);

#ifdef __cplusplus
}
#endif

#endif /* FALAJ_RUNTIME_H */
