// api/inference/model_documents.h — what the inference dialect says about a model. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/value.h"
#include "registry/models.h"
#include "serving/deployments.h"

namespace falaj::api {

// Whether every input and output has an open first dimension: the rows of a batch.
bool has_batch(const registry::Signature& signature);

// {"name","versions","platform","inputs","outputs"}; shapes include the batch as -1.
Value metadata_document(std::string_view name, const serving::LiveModel& live);
// The model's configuration as far as clients read it: true for what runs, nothing invented.
Value config_document(std::string_view name, const serving::LiveModel& live);
// {"model_stats": [...]}; durations in nanoseconds. Of every version that serves, or of the one
// that is named.
Value statistics_document(const std::vector<serving::DeploymentStatus>& statuses,
                          std::string_view version = {});
// The list of POST /v2/repository/index: of all models, or of those that answer.
enum class Listed : std::uint8_t { kAll, kReady };
Value index_document(const std::vector<serving::DeploymentStatus>& statuses, Listed listed);

}  // namespace falaj::api
