/* A runtime for tests, whose models are words: what the sessions of plugin_runtime_test.cc do and
 * what goes wrong in them. "sum" adds the three columns of each row; every other word is a fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "falaj/runtime.h"

#ifndef TEST_VERSION
#define TEST_VERSION FALAJ_RUNTIME_VERSION
#endif

struct FalajSession {
  char word[32];
};

static int is(const FalajSession* session, const char* word) {
  return strcmp(session->word, word) == 0;
}

static FalajSession* load(const void* model, size_t size, uint32_t threads, char* error) {
  (void)threads;
  FalajSession* session = calloc(1, sizeof(*session));
  if (session == NULL || size == 0 || size >= sizeof(session->word)) {
    free(session);
    snprintf(error, FALAJ_ERROR_BYTES, "no word of mine");
    return NULL;
  }
  memcpy(session->word, model, size);
  if (!is(session, "unsaid")) return session;
  memset(error, 'x', FALAJ_ERROR_BYTES); /* Without its end. */
  free(session);
  return NULL;
}

static void unload(FalajSession* session) { free(session); }

static size_t input_count(const FalajSession* session) { return is(session, "no-inputs") ? 0 : 1; }
static size_t output_count(const FalajSession* session) { return is(session, "crowd") ? 9999 : 1; }

static int describe(const char* name, const char* type, int64_t columns, FalajTensorSpec* spec) {
  snprintf(spec->name, sizeof(spec->name), "%s", name);
  snprintf(spec->datatype, sizeof(spec->datatype), "%s", type);
  spec->rank = 2;
  spec->shape[0] = -1;
  spec->shape[1] = columns;
  return 1;
}

static int input(const FalajSession* session, size_t index, FalajTensorSpec* spec, char* error) {
  (void)index;
  if (is(session, "shy")) {
    snprintf(error, FALAJ_ERROR_BYTES, "I do not tell");
    return 0;
  }
  describe("x", is(session, "texts") ? "BYTES" : "FP32", 3, spec);
  if (is(session, "endless")) memset(spec->name, 'n', sizeof(spec->name));
  if (is(session, "deep")) spec->rank = 99;
  return 1;
}

static int output(const FalajSession* session, size_t index, FalajTensorSpec* spec, char* error) {
  (void)session, (void)index, (void)error;
  return describe("sum", "FP32", 1, spec);
}

static int run(FalajSession* session, const FalajTensor* inputs, size_t count,
               const FalajOutputs* outputs, char* error) {
  const size_t rows = (size_t)inputs[0].shape[0];
  if (count != 1 || is(session, "fails")) {
    snprintf(error, FALAJ_ERROR_BYTES, "I will not");
    return 0;
  }
  if (is(session, "silent")) return 1;
  float* sums = calloc(rows + 1, sizeof(float));
  const float* cells = inputs[0].bytes;
  for (size_t row = 0; row < rows; ++row) {
    sums[row] = cells[3 * row] + cells[3 * row + 1] + cells[3 * row + 2];
  }
  const int64_t shape[2] = {(int64_t)rows, 1};
  FalajTensor answer = {"sum", "FP32", shape, 2, sums, rows * sizeof(float)};
  if (is(session, "short")) answer.bytes_size -= 1;
  if (is(session, "typed")) answer.datatype = "FP64";
  if (is(session, "nothing")) answer.bytes = NULL;
  if (is(session, "ranked")) answer.rank = 99;
  int more = outputs->give(outputs->context, &answer);
  if (is(session, "twice")) more = outputs->give(outputs->context, &answer);
  free(sums);
  return more;
}

const FalajRuntime* falaj_runtime(void) {
  static const FalajRuntime table = {
      TEST_VERSION, sizeof(FalajRuntime), "sum",        "1.0", load,
      unload,       input_count,          output_count, input, output,
#ifdef TEST_LACKS_RUN
      NULL
#else
      run
#endif
  };
  return &table;
}
