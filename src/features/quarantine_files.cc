#include "features/quarantine_files.h"

#include "features/internal/segments.h"

namespace falaj::features {

Result<std::string> read_quarantine(storage::SqlStore& sql, const storage::BlobStore& blobs,
                                    const ProjectName& project, const BlobId& id) {
  const storage::SqlRows rows = FALAJ_TRY(storage::query(
      sql, "SELECT view, zone FROM feature_quarantines WHERE project = ? AND blob = ? LIMIT 1",
      {project.str(), id.str()}));
  if (rows.empty()) {
    return Error(ErrorId::kNotFound, "project '" + project.str() + "' has no quarantine '" +
                                         id.str() + "'; an ingest's report names its own");
  }
  return blobs.get(owner_of_view(project.str(), Zone(rows[0].text(1)), rows[0].text(0)), id);
}

}  // namespace falaj::features
