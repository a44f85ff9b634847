#include "features/profiles.h"

#include <algorithm>
#include <utility>

#include "features/erasure.h"
#include "features/internal/batch_profile.h"
#include "features/internal/kept_profiles.h"
#include "storage/objects.h"

namespace falaj::features {

const storage::Migration kProfilesMigration{
    "features-003-profiles",
    "CREATE TABLE feature_profiles ("
    " project TEXT NOT NULL, view TEXT NOT NULL, first_commit INTEGER NOT NULL,"
    " last_commit INTEGER NOT NULL, generation INTEGER NOT NULL,"
    " zone TEXT NOT NULL CHECK (zone != ''), ingests INTEGER NOT NULL, rows INTEGER NOT NULL,"
    " blob TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (project, view, last_commit));"};

namespace {

KeptProfile kept_of(const storage::SqlRow& row) {
  return {static_cast<std::uint64_t>(row.integer(0)),
          static_cast<std::uint64_t>(row.integer(1)),
          row.integer(2),
          Zone(row.text(3)),
          static_cast<std::uint64_t>(row.integer(4)),
          static_cast<std::uint64_t>(row.integer(5)),
          BlobId(row.text(6)),
          Timestamp{row.integer(7)}};
}

Result<BatchProfile> load(const storage::BlobStore& blobs, const ViewName& view,
                          const KeptProfile& kept) {
  const std::string bytes =
      FALAJ_TRY(blobs.get(owner_of_view(view.project, kept.zone, view.view), kept.blob));
  return decode_profile(bytes);
}

// Its row goes at once, its blob once no other row has the same (equal content may be one blob).
Status forget(storage::SqlTransaction& tx, const ViewName& view, const KeptProfile& kept) {
  FALAJ_TRY(
      tx.execute("DELETE FROM feature_profiles WHERE project = ? AND view = ? AND last_commit = ?",
                 {view.project, view.view, static_cast<std::int64_t>(kept.last)}));
  FALAJ_TRY(
      tx.execute("INSERT OR IGNORE INTO feature_erased_blobs (project, zone, view, blob)"
                 " SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM feature_profiles"
                 " WHERE project = ?1 AND zone = ?2 AND view = ?3 AND blob = ?4)",
                 {view.project, kept.zone.name(), view.view, kept.blob.str()}));
  return {};
}

template <typename Chosen>
Result<std::uint64_t> forget_all(storage::SqlTransaction& tx, const ViewName& view,
                                 const Chosen& chosen) {
  std::uint64_t gone = 0;
  for (const KeptProfile& kept : FALAJ_TRY(list_profiles(tx, view))) {
    if (!chosen(kept)) continue;
    FALAJ_TRY(forget(tx, view, kept));
    ++gone;
  }
  return gone;
}

// Two neighbours become one, or the oldest goes.
Status thin_once(storage::SqlStore& sql, storage::BlobStore& blobs, const ViewName& view,
                 const std::vector<KeptProfile>& kept) {
  const std::optional<std::size_t> place = next_to_merge(kept);
  if (!place) {
    return sql.write([&](storage::SqlTransaction& tx) { return forget(tx, view, kept.front()); });
  }
  const KeptProfile& older = kept[*place];
  KeptProfile merged = kept[*place + 1];
  BatchProfile profile = FALAJ_TRY(load(blobs, view, older));
  profile.merge(FALAJ_TRY(load(blobs, view, merged)));
  merged.first = older.first;
  merged.ingests += older.ingests;
  merged.rows += older.rows;
  merged.blob =
      FALAJ_TRY(blobs.put(owner_of_view(view.project, merged.zone, view.view), encode(profile))).id;
  return sql.write([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(forget(tx, view, older));
    FALAJ_TRY(forget(tx, view, kept[*place + 1]));
    return keep_profile(tx, view, merged);
  });
}

Value described(const KeptProfile& kept, const BatchProfile& profile) {
  Value out = to_value(profile);
  out["commits"]["first"] = kept.first;
  out["commits"]["last"] = kept.last;
  out["ingests"] = kept.ingests;
  out["generation"] = kept.generation;
  out["at"] = to_rfc3339(kept.at);
  return out;
}

}  // namespace

Status keep_profile(storage::SqlTransaction& tx, const ViewName& view, const KeptProfile& profile) {
  FALAJ_TRY(
      tx.execute("INSERT INTO feature_profiles VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                 {view.project, view.view, static_cast<std::int64_t>(profile.first),
                  static_cast<std::int64_t>(profile.last), profile.generation, profile.zone.name(),
                  static_cast<std::int64_t>(profile.ingests),
                  static_cast<std::int64_t>(profile.rows), profile.blob.str(), profile.at.nanos}));
  return {};
}

Result<std::vector<KeptProfile>> list_profiles(storage::SqlTransaction& tx, const ViewName& view) {
  std::vector<KeptProfile> out;
  for (const storage::SqlRow& row : FALAJ_TRY(
           tx.query("SELECT first_commit, last_commit, generation, zone, ingests, rows, blob, at"
                    " FROM feature_profiles WHERE project = ? AND view = ? ORDER BY last_commit",
                    {view.project, view.view}))) {
    out.push_back(kept_of(row));
  }
  return out;
}

std::optional<std::size_t> next_to_merge(const std::vector<KeptProfile>& kept) {
  std::optional<std::size_t> best;
  std::uint64_t fewest = UINT64_MAX;
  for (std::size_t i = 0; i + 1 + kProfilesKept / 2 < kept.size(); ++i) {
    const KeptProfile& one = kept[i];
    const KeptProfile& next = kept[i + 1];
    if (one.generation != next.generation || one.zone != next.zone) continue;
    if (one.ingests + next.ingests >= fewest) continue;
    fewest = one.ingests + next.ingests;
    best = i;
  }
  return best;
}

Status thin_profiles(storage::SqlStore& sql, storage::BlobStore& blobs, const ViewName& view) {
  while (true) {
    std::vector<KeptProfile> kept;
    FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
      kept = FALAJ_TRY(list_profiles(tx, view));
      return {};
    }));
    if (kept.size() <= kProfilesKept) return {};
    FALAJ_TRY(thin_once(sql, blobs, view, kept));
    FALAJ_TRY(finish_erasures(sql, blobs));
  }
}

Result<std::uint64_t> forget_profiles_of(storage::SqlTransaction& tx, const ViewName& view,
                                         std::uint64_t commit) {
  return forget_all(tx, view, [&](const KeptProfile& kept) {
    return kept.first <= commit && commit <= kept.last;
  });
}

Result<std::uint64_t> forget_profiles_in(storage::SqlTransaction& tx, const ViewName& view,
                                         const Zone& zone) {
  return forget_all(tx, view, [&](const KeptProfile& kept) { return kept.zone == zone; });
}

Result<Value> read_profiles(storage::SqlStore& sql, const storage::BlobStore& blobs,
                            const ProjectName& project, const std::string& view,
                            const ProfileQuery& query) {
  const ViewName name{project.str(), view};
  std::vector<KeptProfile> kept;
  FALAJ_TRY(sql.read([&](storage::SqlTransaction& tx) -> Status {
    FALAJ_TRY(storage::get_object(tx, "FeatureView", name.project, view));
    kept = FALAJ_TRY(list_profiles(tx, name));
    return {};
  }));
  if (query.commit) {
    std::erase_if(kept, [&](const KeptProfile& one) {
      return *query.commit < one.first || one.last < *query.commit;
    });
    if (kept.empty()) {
      return Error(ErrorId::kNotFound,
                   "FeatureView " + view + " has no profile of commit " +
                       std::to_string(*query.commit) +
                       ": only files that were ingested have one, until they are erased");
    }
  }
  std::reverse(kept.begin(), kept.end());
  if (kept.size() > query.most) kept.resize(query.most);
  Value out;
  out["view"] = view;
  out["profiles"] = Value::array();
  for (const KeptProfile& one : kept) {
    const Result<BatchProfile> profile = load(blobs, name, one);
    if (!profile.ok()) {
      return profile.error().within("profile of commit " + std::to_string(one.last));
    }
    out["profiles"].push(described(one, *profile));
  }
  return out;
}

}  // namespace falaj::features
