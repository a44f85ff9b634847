#include "features/quarantine_files.h"

#include "features/internal/segments.h"

namespace falaj::features {

namespace {

struct Place {
  std::string view;
  Zone zone;
};

Result<Place> find_quarantine(storage::SqlStore& sql, const ProjectName& project,
                              const BlobId& id) {
  const storage::SqlRows rows = FALAJ_TRY(storage::query(
      sql, "SELECT view, zone FROM feature_quarantines WHERE project = ? AND blob = ? LIMIT 1",
      {project.str(), id.str()}));
  if (rows.empty()) {
    return Error(ErrorId::kNotFound, "project '" + project.str() + "' has no quarantine '" +
                                         id.str() + "'; an ingest's report names its own");
  }
  return Place{rows[0].text(0), Zone(rows[0].text(1))};
}

}  // namespace

Result<std::string> read_quarantine(storage::SqlStore& sql, const storage::BlobStore& blobs,
                                    const ProjectName& project, const BlobId& id) {
  const Place place = FALAJ_TRY(find_quarantine(sql, project, id));
  return blobs.get(owner_of_view(project.str(), place.zone, place.view), id);
}

Result<std::string> view_of_quarantine(storage::SqlStore& sql, const ProjectName& project,
                                       const BlobId& id) {
  return FALAJ_TRY(find_quarantine(sql, project, id)).view;
}

}  // namespace falaj::features
