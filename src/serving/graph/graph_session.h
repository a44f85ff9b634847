// serving/graph/graph_session.h — several models and rules that answer as one.
//
// A Session like any other: batching, caching, REST and gRPC see no difference. Its parts never
// change, so a request is answered by one set of versions from its first step to its last.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serving/graph/declaration.h"
#include "serving/runtime.h"

namespace falaj::serving {

// The model of a step, as it was loaded. Of a rule: nothing.
struct GraphPart {
  std::string model;
  std::int64_t version = 0;
  std::string onnx;  // Names the file.
  std::shared_ptr<Session> session;
  std::vector<std::string> features;  // Names of the columns of its one input; may be empty.
};

// Names the declaration and every file: another version of any step has another one.
std::string graph_digest(const Graph& graph, const std::vector<GraphPart>& parts);

class GraphSession : public Session {
 public:
  virtual const Graph& graph() const = 0;
  virtual const std::vector<GraphPart>& parts() const = 0;  // One for each step.
  virtual const std::string& digest() const = 0;
  // The model whose features the one input has; "": none, or there are several inputs.
  virtual const std::string& features_of() const = 0;
};

// `parts` has one for each step. An input takes its datatype and shape from the model that reads
// it whole. FJ-5004 names the step and both sides where datatypes or shapes clash, and an input
// that no model reads whole; FJ-3050 for a rule that does not compile. Every tensor's first
// dimension has to count rows.
Result<std::shared_ptr<GraphSession>> make_graph_session(const Graph& graph,
                                                         std::vector<GraphPart> parts);

}  // namespace falaj::serving
