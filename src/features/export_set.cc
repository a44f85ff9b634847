#include "features/export_set.h"

#include "base/hash.h"
#include "table/encrypted_parquet.h"

namespace falaj::features {

Result<ExportedSet> export_set(const TrainingSets& sets, const storage::BlobStore& blobs,
                               security::Audit& audit, const security::RequestContext& context,
                               const ExportRequest& request) {
  ExportedSet out;
  out.manifest = FALAJ_TRY(request.id.empty() ? sets.latest(context.project, request.name)
                                              : sets.by_id(context.project, request.id));
  if (out.manifest.name != request.name) {
    return Error(ErrorId::kObjectNotFound,
                 "TrainingSet " + request.name + " has no frozen set " + request.id);
  }
  const auto file = FALAJ_TRY(blobs.open(owner_of(out.manifest), out.manifest.data));
  const table::Batch rows = FALAJ_TRY(table::read_all(*file, table::Format::kParquet));
  TextWriter sealed;
  FALAJ_TRY(table::write_encrypted_parquet(sealed, rows, {request.key, out.manifest.id}));
  out.parquet = sealed.take();
  Value detail = Value::object();
  detail["id"] = out.manifest.id;
  detail["rows"] = out.manifest.rows;
  detail["zone"] = out.manifest.zone;
  detail["bytes"] = out.parquet.size();
  detail["sha256"] = sha256_hex(out.parquet);
  FALAJ_TRY(audit.record(
      context, {"data.export", "TrainingSet/" + out.manifest.project + "/" + out.manifest.name,
                std::move(detail)}));
  return out;
}

}  // namespace falaj::features
