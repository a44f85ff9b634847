/* runtimes/openvino/openvino_runtime.c — OpenVINO behind falaj/runtime.h.
 *
 * Runs ONNX models on the processor with OpenVINO's CPU plugin. Numbers are computed in the model's
 * own precision (OpenVINO would take bf16 where the processor has it), one stream, as many threads
 * as Falaj gives. Requests are kept and used again, one for each run that goes on at once.
 */
#include <openvino/c/openvino.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "falaj/runtime.h"

enum { kIdleMax = 64 };

struct FalajSession {
  ov_compiled_model_t* model;
  size_t inputs;
  size_t outputs;
  pthread_mutex_t mutex;
  ov_infer_request_t* idle[kIdleMax];
  size_t idle_count;
};

static pthread_once_t core_once = PTHREAD_ONCE_INIT;
static ov_core_t* core; /* For the life of the process: threads of it may outlive any session. */

static void make_core(void) {
  if (ov_core_create(&core) != OK) core = NULL;
}

static int fail(char* error, const char* format, ...) {
  va_list parts;
  va_start(parts, format);
  vsnprintf(error, FALAJ_ERROR_BYTES, format, parts);
  va_end(parts);
  return 0;
}

static int done(ov_status_e status, const char* step, char* error) {
  if (status == OK) return 1;
  const char* detail = ov_get_last_err_msg();
  fail(error, "%s: %s%s%s", step, ov_get_error_info(status), detail == NULL ? "" : ": ",
       detail == NULL ? "" : detail);
  if (detail != NULL) ov_free(detail);
  return 0;
}

static const struct {
  ov_element_type_e type;
  const char* word;
} kTypes[] = {{BOOLEAN, "BOOL"}, {U8, "UINT8"},  {U16, "UINT16"}, {U32, "UINT32"}, {U64, "UINT64"},
              {I8, "INT8"},      {I16, "INT16"}, {I32, "INT32"},  {I64, "INT64"},  {F16, "FP16"},
              {F32, "FP32"},     {F64, "FP64"},  {BF16, "BF16"}};
enum { kTypeCount = sizeof(kTypes) / sizeof(kTypes[0]) };

static const char* word_of(ov_element_type_e type) {
  for (size_t i = 0; i < kTypeCount; ++i) {
    if (kTypes[i].type == type) return kTypes[i].word;
  }
  return NULL;
}

static ov_element_type_e type_of(const char* word) {
  for (size_t i = 0; i < kTypeCount; ++i) {
    if (strcmp(kTypes[i].word, word) == 0) return kTypes[i].type;
  }
  return DYNAMIC;
}

static void unload(FalajSession* session) {
  for (size_t i = 0; i < session->idle_count; ++i) ov_infer_request_free(session->idle[i]);
  if (session->model != NULL) ov_compiled_model_free(session->model);
  pthread_mutex_destroy(&session->mutex);
  free(session);
}

static int compile(FalajSession* session, const ov_model_t* model, uint32_t threads, char* error) {
  char count[16];
  snprintf(count, sizeof(count), "%u", threads);
  return done(ov_core_compile_model(
                  core, model, "CPU", 8, &session->model, ov_property_key_inference_num_threads,
                  count, ov_property_key_num_streams, "1", ov_property_key_hint_inference_precision,
                  "f32", ov_property_key_hint_enable_cpu_pinning, "NO"),
              "compile", error) &&
         done(ov_compiled_model_inputs_size(session->model, &session->inputs), "inputs", error) &&
         done(ov_compiled_model_outputs_size(session->model, &session->outputs), "outputs", error);
}

static FalajSession* load(const void* bytes, size_t size, uint32_t threads, char* error) {
  pthread_once(&core_once, make_core);
  if (core == NULL) {
    fail(error, "OpenVINO finds none of its own plugins");
    return NULL;
  }
  ov_model_t* model = NULL;
  if (!done(ov_core_read_model_from_memory_buffer(core, bytes, size, NULL, &model), "read",
            error)) {
    return NULL;
  }
  FalajSession* session = calloc(1, sizeof(*session));
  int whole = session != NULL || fail(error, "no memory");
  if (whole) {
    pthread_mutex_init(&session->mutex, NULL);
    whole = compile(session, model, threads, error);
  }
  ov_model_free(model);
  if (whole) return session;
  if (session != NULL) unload(session);
  return NULL;
}

static size_t input_count(const FalajSession* session) { return session->inputs; }
static size_t output_count(const FalajSession* session) { return session->outputs; }

static int describe_shape(const ov_output_const_port_t* port, FalajTensorSpec* spec, char* error) {
  ov_partial_shape_t shape;
  if (!done(ov_port_get_partial_shape(port, &shape), "shape", error)) return 0;
  int fits = shape.rank.min == shape.rank.max && shape.rank.max <= (int64_t)FALAJ_RANK_MAX;
  if (fits) {
    spec->rank = (size_t)shape.rank.max;
    for (size_t i = 0; i < spec->rank; ++i) {
      spec->shape[i] = shape.dims[i].min == shape.dims[i].max ? shape.dims[i].max : -1;
    }
  } else {
    fail(error, "a tensor has no fixed rank, or one above %u", FALAJ_RANK_MAX);
  }
  ov_partial_shape_free(&shape);
  return fits;
}

static int describe(ov_output_const_port_t* port, FalajTensorSpec* spec, char* error) {
  char* name = NULL;
  ov_element_type_e type = DYNAMIC;
  int whole = done(ov_port_get_any_name(port, &name), "name", error) &&
              done(ov_port_get_element_type(port, &type), "type", error);
  if (whole) {
    const char* word = word_of(type);
    if (word == NULL || strlen(name) >= sizeof(spec->name)) {
      whole = fail(error, "'%.200s' has a type or a name that cannot be told", name);
    } else {
      snprintf(spec->name, sizeof(spec->name), "%s", name);
      snprintf(spec->datatype, sizeof(spec->datatype), "%s", word);
      whole = describe_shape(port, spec, error);
    }
  }
  if (name != NULL) ov_free(name);
  ov_output_const_port_free(port);
  return whole;
}

static int input(const FalajSession* session, size_t index, FalajTensorSpec* spec, char* error) {
  ov_output_const_port_t* port = NULL;
  return done(ov_compiled_model_input_by_index(session->model, index, &port), "input", error) &&
         describe(port, spec, error);
}

static int output(const FalajSession* session, size_t index, FalajTensorSpec* spec, char* error) {
  ov_output_const_port_t* port = NULL;
  return done(ov_compiled_model_output_by_index(session->model, index, &port), "output", error) &&
         describe(port, spec, error);
}

static ov_infer_request_t* take(FalajSession* session, char* error) {
  ov_infer_request_t* request = NULL;
  pthread_mutex_lock(&session->mutex);
  if (session->idle_count > 0) request = session->idle[--session->idle_count];
  pthread_mutex_unlock(&session->mutex);
  if (request != NULL) return request;
  return done(ov_compiled_model_create_infer_request(session->model, &request), "request", error)
             ? request
             : NULL;
}

static void give_back(FalajSession* session, ov_infer_request_t* request) {
  pthread_mutex_lock(&session->mutex);
  const int kept = session->idle_count < kIdleMax;
  if (kept) session->idle[session->idle_count++] = request;
  pthread_mutex_unlock(&session->mutex);
  if (!kept) ov_infer_request_free(request);
}

static int set_input(ov_infer_request_t* request, size_t index, const FalajTensor* given,
                     char* error) {
  static char nothing; /* OpenVINO wants an address even of a tensor without elements. */
  ov_shape_t shape = {0};
  if (!done(ov_shape_create((int64_t)given->rank, given->shape, &shape), "shape", error)) return 0;
  ov_tensor_t* tensor = NULL;
  void* bytes = given->bytes_size == 0 ? &nothing : (void*)given->bytes; /* Only read. */
  const int set =
      done(ov_tensor_create_from_host_ptr(type_of(given->datatype), shape, bytes, &tensor),
           "tensor", error) &&
      done(ov_infer_request_set_input_tensor_by_index(request, index, tensor), "set", error);
  if (tensor != NULL) ov_tensor_free(tensor); /* The request holds on to what it needs. */
  ov_shape_free(&shape);
  return set;
}

static int give_output(const ov_infer_request_t* request, size_t index, const FalajOutputs* outputs,
                       char* error) {
  ov_tensor_t* tensor = NULL;
  if (!done(ov_infer_request_get_output_tensor_by_index(request, index, &tensor), "get", error)) {
    return 0;
  }
  FalajTensor answer = {0};
  ov_shape_t shape = {0};
  ov_element_type_e type = DYNAMIC;
  void* bytes = NULL;
  int whole = done(ov_tensor_get_shape(tensor, &shape), "shape", error) &&
              done(ov_tensor_get_element_type(tensor, &type), "type", error) &&
              done(ov_tensor_get_byte_size(tensor, &answer.bytes_size), "size", error) &&
              (answer.bytes_size == 0 || done(ov_tensor_data(tensor, &bytes), "data", error));
  if (whole) {
    answer.name = "";
    answer.datatype = word_of(type);
    answer.shape = shape.dims;
    answer.rank = (size_t)shape.rank;
    answer.bytes = bytes;
    whole = outputs->give(outputs->context, &answer);
  }
  if (shape.dims != NULL) ov_shape_free(&shape);
  ov_tensor_free(tensor);
  return whole;
}

static int run(FalajSession* session, const FalajTensor* inputs, size_t count,
               const FalajOutputs* outputs, char* error) {
  ov_infer_request_t* request = take(session, error);
  if (request == NULL) return 0;
  int whole = 1;
  for (size_t i = 0; whole && i < count; ++i) whole = set_input(request, i, &inputs[i], error);
  whole = whole && done(ov_infer_request_infer(request), "infer", error);
  for (size_t i = 0; whole && i < session->outputs; ++i) {
    whole = give_output(request, i, outputs, error);
  }
  /* After a failure it still points at the caller's bytes: not one to use again. */
  if (whole) {
    give_back(session, request);
  } else {
    ov_infer_request_free(request);
  }
  return whole;
}

static char version_text[64] = "unknown";

static void read_version(void) {
  ov_version_t version;
  if (ov_get_openvino_version(&version) != OK) return;
  snprintf(version_text, sizeof(version_text), "%.63s", version.buildNumber);
  ov_version_free(&version);
}

const FalajRuntime* falaj_runtime(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_version);
  static const FalajRuntime table = {
      FALAJ_RUNTIME_VERSION, sizeof(FalajRuntime), "openvino", version_text, load, unload,
      input_count,           output_count,         input,      output,       run};
  return &table;
}
