// features/testing/feature_world.h — a small world for tests: stores, definitions and files.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "features/erasure.h"
#include "features/ingest.h"
#include "features/online.h"
#include "features/profiles.h"
#include "features/push.h"
#include "features/training_sets.h"
#include "security/audit.h"
#include "storage/objects.h"
#include "storage/open.h"
#include "table/testing/test_folder.h"

namespace falaj::features {

// Passes on to a real store until told to fail its writes: the disk went away.
class BreakableKv final : public storage::KvStore {
 public:
  explicit BreakableKv(storage::KvStore& inner) : inner_(inner) {}
  void break_writes() { broken_ = true; }
  void mend() { broken_ = false; }

  Result<std::optional<std::string>> get(const storage::Owner& owner,
                                         std::string_view key) const override {
    return inner_.get(owner, key);
  }
  Result<std::vector<std::optional<std::string>>> get_many(
      const storage::Owner& owner, const std::vector<std::string>& keys) const override {
    return inner_.get_many(owner, keys);
  }
  Status write(const storage::Owner& owner, const std::vector<storage::KvWrite>& batch) override {
    if (broken_) {
      count(refused_);
      return Error(Code::kUnavailable, "the disk went away");
    }
    FALAJ_TRY(inner_.write(owner, batch));
    count(written_);
    return {};
  }
  // Until so many writes in all were refused, or done.
  void wait_for_refused(int writes) const { wait(refused_, writes); }
  void wait_for_written(int writes) const { wait(written_, writes); }
  Status clear(const storage::Owner& owner) override { return inner_.clear(owner); }
  Status purge(const storage::Owner& owner) override {
    ++purges;
    return inner_.purge(owner);
  }
  Status scan(const storage::Owner& owner,
              const std::function<bool(std::string_view, std::string_view)>& visit) const override {
    count(scanned_);
    if (owner.object == held_) held_now_.wait(true);
    return inner_.scan(owner, visit);
  }
  // Scans of this owner wait until they are let go.
  void hold_scans(const storage::Owner& owner) {
    held_ = owner.object;
    held_now_ = true;
  }
  void let_scans() {
    held_now_ = false;
    held_now_.notify_all();
  }
  int scans() const { return scanned_; }
  void wait_for_scans(int scans) const { wait(scanned_, scans); }

  std::atomic<int> purges{0};

 private:
  static void count(std::atomic<int>& writes) {
    ++writes;
    writes.notify_all();
  }
  static void wait(const std::atomic<int>& writes, int most) {
    for (int seen = writes; seen < most; seen = writes) writes.wait(seen);
  }

  storage::KvStore& inner_;
  std::atomic<bool> broken_{false};
  std::string held_;
  std::atomic<bool> held_now_{false};
  std::atomic<int> refused_{0};
  std::atomic<int> written_{0};
  mutable std::atomic<int> scanned_{0};
};

inline Value json(std::string_view text) {
  Result<Value> value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *value : Value();
}

// Stores that live as long as the world; services that restart() makes anew over them.
class FeatureWorld {
 public:
  FeatureWorld()
      : sql(storage::make_fake_sql()),
        kv_inner(storage::make_fake_kv()),
        kv(*kv_inner),
        blobs(storage::make_fake_blobs()),
        audit(*sql, clock) {
    EXPECT_TRUE(
        sql->migrate({storage::kObjectsMigration, security::kAuditMigration, kFeaturesMigration,
                      kReachMigration, kErasureMigration, kProfilesMigration})
            .ok());
    context.principal.kind = security::PrincipalKind::kUser;
    context.principal.id = "user:test";
    context.project = ProjectName("pay");
    context.zone = Zone("ae");
    restart();
  }

  void stop() {
    pushes.reset();
    ingest.reset();
    online.reset();
  }

  void restart() {
    stop();
    Result<std::unique_ptr<Online>> opened = Online::open(*sql, kv, *blobs, online_options);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    online = std::move(opened).value();
    ingest = std::make_unique<Ingest>(*sql, *blobs, *online, audit, metrics, clock);
    pushes = std::make_unique<Pushes>(*ingest, *blobs, audit, metrics, clock);
    training_sets = std::make_unique<TrainingSets>(*sql, *blobs, audit, clock);
  }

  void apply(const std::string& kind, const std::string& name, std::string_view spec) {
    storage::Object object;
    object.kind = kind;
    object.project = context.project.str();
    object.name = name;
    object.spec = json(spec);
    const Status status = sql->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(storage::put_object(tx, object, clock.now()));
      return {};
    });
    ASSERT_TRUE(status.ok()) << status.error().message;
    if (online != nullptr) online->definitions_changed();
  }

  void remove(const std::string& kind, const std::string& name) {
    const Status status = sql->write([&](storage::SqlTransaction& tx) {
      return storage::delete_object(tx, kind, context.project.str(), name);
    });
    ASSERT_TRUE(status.ok()) << status.error().message;
    online->definitions_changed();
  }

  // customer → activity {amount, city} with times at and loaded_at; ttl of 30 days.
  void apply_activity(std::string_view ttl = "30d") {
    apply("Entity", "customer", R"({"keys":[{"name":"customer_id","type":"int64"}]})");
    apply("Source", "tx", R"({"format":"csv","event_time":"at","created_time":"loaded_at"})");
    apply("FeatureView", "activity",
          R"({"entity":"customer","source":"tx","ttl":")" + std::string(ttl) +
              R"(","features":[{"name":"amount","type":"float64","expect":{"min":0}},)"
              R"({"name":"city","type":"string"}]})");
    apply("FeatureService", "svc", R"({"features":["activity"]})");
  }

  Result<IngestReport> append(const std::string& view, std::string_view csv) {
    return ingest->append(context, view, {TextReader(std::string(csv)), table::Format::kCsv, {}});
  }
  // Rows that are committed, but whose publishing failed.
  void commit_unseen(const std::string& view, std::string_view csv) {
    const auto other = Online::open(*sql, kv, *blobs);
    ASSERT_TRUE(other.ok()) << other.error().message;
    telemetry::Metrics own;
    Ingest elsewhere(*sql, *blobs, **other, audit, own, clock);
    const auto report =
        elsewhere.append(context, view, {TextReader(std::string(csv)), table::Format::kCsv, {}});
    ASSERT_TRUE(report.ok()) << report.error().message;
    online->pass(report->commit);
  }
  // Waits until it is acknowledged or refused. `rows` as JSON.
  Result<PushReport> push(const std::string& view, std::string_view rows,
                          Reach reach = Reach::kBoth) {
    std::promise<Result<PushReport>> done;
    pushes->push(context, view, {PushedRows::Form::kRows, json(rows)}, reach,
                 [&](Result<PushReport> report) { done.set_value(std::move(report)); });
    return done.get_future().get();
  }
  storage::Owner owner_of_view(const std::string& view) const {
    return {context.project, context.zone, "FeatureView/" + view};
  }

  // The value of column `i` for a key, as the status's name or a number.
  OnlineRow read(const std::vector<KeyPart>& keys, const std::string& service = "svc") {
    OnlineRow row;
    const auto plan = online->plan(context.project, service);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    if (plan.ok()) online->read(**plan, keys, clock.now(), row);
    return row;
  }

  table::TestFolder folder;
  FakeClock clock;
  std::unique_ptr<storage::SqlStore> sql;
  std::unique_ptr<storage::KvStore> kv_inner;
  BreakableKv kv;
  std::unique_ptr<storage::BlobStore> blobs;
  security::Audit audit;
  telemetry::Metrics metrics;
  security::RequestContext context;
  OnlineOptions online_options;  // From the next restart() on.
  std::unique_ptr<Online> online;
  std::unique_ptr<Ingest> ingest;
  std::unique_ptr<Pushes> pushes;
  std::unique_ptr<TrainingSets> training_sets;
};

}  // namespace falaj::features
