#include "features/training_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>

#include "features/testing/feature_world.h"

namespace falaj::features {
namespace {

using testing::HasSubstr;

constexpr const char* kHeader = "customer_id,at,loaded_at,amount,city\n";

class TrainingSetsTest : public testing::Test {
 protected:
  TrainingSetsTest() {
    world_.apply_activity("5d");
    world_.apply("Source", "label_source", R"({"format":"csv","event_time":"at"})");
    world_.apply("FeatureView", "labels",
                 R"({"entity":"customer","source":"label_source","online":false,)"
                 R"("features":[{"name":"is_fraud","type":"int64"}]})");
    world_.apply("TrainingSet", "set",
                 R"({"service":"svc","spine":{"view":"labels","label":"is_fraud"}})");
    world_.apply("TrainingSet", "from_file",
                 R"({"service":"svc","spine":{"path":"l.csv","time":"at","label":"is_fraud"}})");
  }

  void ingest(const std::string& view, const std::string& csv) {
    const auto report = world_.append(view, csv);
    ASSERT_TRUE(report.ok()) << report.error().message;
  }

  table::Batch data(const Manifest& manifest) {
    const auto file = world_.blobs->open(owner_of(manifest), manifest.data);
    EXPECT_TRUE(file.ok());
    return table::read_all(**file, table::Format::kParquet).value();
  }

  Result<Manifest> freeze(const FreezeOptions& options = {}, const std::string& name = "set") {
    return world_.training_sets->freeze(world_.context, name, options);
  }

  Result<Manifest> freeze_file(std::string_view csv) {
    FreezeOptions options;
    const TextReader spine{std::string(csv)};
    options.spine_file = &spine;
    options.spine_format = table::Format::kCsv;
    return freeze(options, "from_file");
  }

  FeatureWorld world_;
};

TEST_F(TrainingSetsTest, a_view_declared_again_differently_is_frozen_anew) {
  // Customer 2 keeps the segment an input under both times to live.
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n2,2026-01-04,,20,a\n");
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-04,1\n");
  const auto first = freeze();
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(*data(*first).find("amount"), table::Column::of_doubles({10}));
  world_.remove("TrainingSet", "set");
  world_.remove("FeatureService", "svc");
  world_.remove("FeatureView", "activity");
  // One apply made each of them: a count that began anew would call both generation 1.
  world_.apply_activity("1d");
  world_.apply("TrainingSet", "set",
               R"({"service":"svc","spine":{"view":"labels","label":"is_fraud"}})");
  const auto second = freeze();
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_NE(second->id, first->id);
  EXPECT_TRUE(data(*second).find("amount")->is_null(0));
  EXPECT_EQ(world_.training_sets->latest(world_.context.project, "set")->id, second->id);
}

TEST_F(TrainingSetsTest, says_how_long_before_its_row_each_value_was_available) {
  ingest("activity", std::string(kHeader) +
                         "1,2026-01-01,2026-01-02,10,a\n"
                         "2,2026-01-01,2026-01-04,20,b\n3,2026-01-01,,30,c\n");
  ingest(
      "labels",
      "customer_id,at,is_fraud\n1,2026-01-03,0\n2,2026-01-03,1\n3,2026-01-03,0\n4,2026-01-03,1\n");
  const auto manifest = freeze();
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  const Leakage want{"activity", 3, 1, Duration::days(-1), Duration::days(-1), Duration::days(1)};
  EXPECT_EQ(manifest->leakage, std::vector<Leakage>{want});
  EXPECT_EQ(manifest_from_value(to_value(*manifest))->leakage, manifest->leakage);
  EXPECT_EQ(data(*manifest).schema.fields.size(), 6u);  // Nothing of it is a column.
}

TEST_F(TrainingSetsTest, values_created_after_their_row_are_refused_or_left_out_when_asked) {
  ingest("activity",
         std::string(kHeader) + "1,2026-01-01,2026-01-01,10,a\n1,2026-01-02,2026-01-09,20,b\n");
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-03,0\n");
  const auto declare = [&](const std::string& rule) {
    world_.apply(
        "TrainingSet", "set",
        R"({"service":"svc","spine":{"view":"labels","label":"is_fraud"},"created_later":")" +
            rule + R"("})");
  };
  declare("refuse");
  const auto refused = freeze();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("1 of 1 rows"));
  declare("leave_out");
  const auto known = freeze();
  ASSERT_TRUE(known.ok()) << known.error().message;
  EXPECT_EQ(*data(*known).find("amount"), table::Column::of_doubles({10}));
  EXPECT_EQ(known->leakage.at(0).created_later, 0u);
  declare("mark");
  const auto marked = freeze();
  ASSERT_TRUE(marked.ok()) << marked.error().message;
  EXPECT_EQ(*data(*marked).find("amount"), table::Column::of_doubles({20}));
  EXPECT_EQ(marked->leakage.at(0).created_later, 1u);
}

TEST_F(TrainingSetsTest, a_broken_spine_file_is_named_without_its_path) {
  FreezeOptions options;
  const TextReader nonsense("PAR1 nonsense PAR1");
  options.spine_file = &nonsense;
  const auto manifest = freeze(options, "from_file");
  ASSERT_FALSE(manifest.ok());
  EXPECT_EQ(manifest.error().id, ErrorId::kSpineInvalid);
  EXPECT_THAT(manifest.error().message, HasSubstr("the file"));
}

TEST_F(TrainingSetsTest, joins_each_label_with_what_was_known) {
  ingest("activity",
         std::string(kHeader) + "1,2026-01-01,,10,a\n1,2026-01-03,,11,b\n2,2026-01-01,,20,c\n");
  ingest(
      "labels",
      "customer_id,at,is_fraud\n1,2026-01-02,0\n1,2026-01-03,1\n2,2026-01-09,0\n3,2026-01-02,1\n");
  const auto manifest = freeze();
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(manifest->rows, 4u);
  EXPECT_EQ(manifest->features, (std::vector<std::string>{"amount", "city"}));
  EXPECT_EQ(manifest->keys, std::vector<std::string>{"customer_id"});
  EXPECT_EQ(manifest->time_column, "at");
  EXPECT_EQ(manifest->known_at, 2u);
  EXPECT_EQ(manifest->zone, "ae");
  const table::Batch rows = data(*manifest);
  // By time, then key: (1, 2 Jan) (3, 2 Jan) (1, 3 Jan) (2, 9 Jan: past the five days).
  EXPECT_EQ(rows.find("customer_id")->ints(), (std::vector<std::int64_t>{1, 3, 1, 2}));
  EXPECT_EQ(rows.find("is_fraud")->ints(), (std::vector<std::int64_t>{0, 1, 1, 0}));
  EXPECT_EQ(*rows.find("amount"), table::Column::of_doubles({10, 0, 11, 0}, {1, 0, 1, 0}));
  EXPECT_EQ(rows.find("city")->strings()[2], "b");
  EXPECT_EQ(rows.find("split")->strings()[3], "valid");
  EXPECT_EQ(rows.find("split")->strings()[0], "train");
  EXPECT_EQ(manifest->rows_valid, 1u);
}

TEST_F(TrainingSetsTest, the_same_request_gives_the_same_bytes_whatever_came_later) {
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-02,0\n");
  const auto first = freeze();
  ASSERT_TRUE(first.ok());
  world_.clock.advance(Duration::hours(1));
  const auto again = freeze();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(to_value(*again), to_value(*first));

  // A late correction of what the label saw changes a set frozen now, not one as known before.
  ingest("activity", std::string(kHeader) + "1,2026-01-01,2026-02-01,99,z\n");
  const auto now = freeze();
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(data(*now).find("amount")->doubles()[0], 99.0);
  FreezeOptions as_before;
  as_before.known_at = first->known_at;
  const auto before = freeze(as_before);
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(before->id, first->id);
  EXPECT_EQ(before->data, first->data);
  EXPECT_NE(now->id, first->id);

  // Another name has the same bytes, in a blob of its own.
  as_before.name_suffix = "-copy";
  const auto copy = freeze(as_before);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->data_sha256, first->data_sha256);
  EXPECT_NE(copy->data, first->data);
  EXPECT_EQ(copy->name, "set-copy");

  EXPECT_EQ(world_.training_sets->latest(world_.context.project, "set")->id, now->id);
  EXPECT_EQ(world_.training_sets->by_id(world_.context.project, first->id)->data, first->data);
  EXPECT_EQ(world_.training_sets->list(world_.context.project)->size(), 3u);
  EXPECT_EQ(world_.training_sets->latest(world_.context.project, "other").error().id,
            ErrorId::kObjectNotFound);
}

TEST_F(TrainingSetsTest, says_what_came_after_it_was_frozen) {
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-02,0\n");
  const auto first = freeze();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(world_.training_sets->newer_inputs(*first)->size(), 0u);
  ingest("activity", std::string(kHeader) + "1,2026-01-03,,11,a\n2,2026-01-03,,12,a\n");
  const auto newer = world_.training_sets->newer_inputs(*first);
  ASSERT_TRUE(newer.ok());
  EXPECT_EQ(*newer, std::vector<std::string>{"FeatureView activity has 2 newer rows"});
  const auto second = freeze();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(world_.training_sets->newer_inputs(*second)->size(), 0u);
  world_.remove("TrainingSet", "set");
  world_.remove("FeatureService", "svc");
  world_.remove("FeatureView", "activity");
  EXPECT_EQ(*world_.training_sets->newer_inputs(*second),
            std::vector<std::string>{"FeatureView activity is gone"});
  world_.apply_activity("1d");
  EXPECT_EQ(*world_.training_sets->newer_inputs(*second),
            std::vector<std::string>{"FeatureView activity was declared anew"});
}

TEST_F(TrainingSetsTest, an_ingest_into_an_unrelated_view_changes_nothing) {
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-02,0\n");
  const auto first = freeze();
  world_.apply("FeatureView", "other",
               R"({"entity":"customer","source":"label_source",)"
               R"("features":[{"name":"x","type":"int64"}]})");
  ingest("other", "customer_id,at,x\n1,2026-01-02,0\n");
  EXPECT_EQ(freeze()->id, first->id);
}

TEST_F(TrainingSetsTest, a_period_takes_its_start_and_leaves_its_end) {
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-01,0\n1,2026-01-02,1\n1,2026-01-03,0\n");
  FreezeOptions options;
  options.from = parse_timestamp("2026-01-02").value();
  options.to = parse_timestamp("2026-01-03").value();
  const auto manifest = freeze(options);
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->rows, 1u);
  EXPECT_EQ(data(*manifest).find("is_fraud")->ints(), std::vector<std::int64_t>{1});
  options.from = parse_timestamp("2027-01-02").value();
  options.to = parse_timestamp("2027-01-03").value();
  EXPECT_EQ(freeze(options).error().id, ErrorId::kSpineInvalid);
}

TEST_F(TrainingSetsTest, a_file_keeps_its_order_duplicates_and_null_keys) {
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n2,2026-01-01,,20,b\n");
  const auto manifest = freeze_file(
      "note,is_fraud,at,customer_id\nx,0,2026-01-03,2\ny,1,2026-01-02,1\nz,0,2026-01-02,1\n"
      "n,1,2026-01-02,\n");
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  const table::Batch rows = data(*manifest);
  EXPECT_EQ(rows.find("is_fraud")->ints(), (std::vector<std::int64_t>{0, 1, 0, 1}));
  EXPECT_EQ(*rows.find("amount"), table::Column::of_doubles({20, 10, 10, 0}, {1, 1, 1, 0}));
  EXPECT_EQ(rows.find("note"), nullptr);
}

TEST_F(TrainingSetsTest, bad_spines_are_refused_with_their_code) {
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  EXPECT_EQ(freeze({}, "from_file").error().id, ErrorId::kSpineInvalid);
  EXPECT_EQ(freeze().error().id, ErrorId::kSpineInvalid);  // No label was ingested.
  EXPECT_EQ(freeze_file("customer_id,at\n1,2026-01-01\n").error().id, ErrorId::kSpineInvalid);
  EXPECT_EQ(freeze_file("is_fraud,at\n1,2026-01-01\n").error().id, ErrorId::kEntityKeyMissing);
  EXPECT_EQ(freeze_file("customer_id,is_fraud\n1,1\n").error().id, ErrorId::kSpineInvalid);
  EXPECT_EQ(freeze_file("customer_id,at,is_fraud\n1,2026-01-01,yes\n").error().id,
            ErrorId::kSpineInvalid);
  EXPECT_EQ(freeze_file("customer_id,at,is_fraud\n1,2026-01-01,1\n1,2026-01-01,\n").error().id,
            ErrorId::kSpineInvalid);
  EXPECT_EQ(freeze_file("customer_id,at,is_fraud\nseven,2026-01-01,1\n").error().id,
            ErrorId::kSpineInvalid);
  EXPECT_EQ(freeze({}, "nope").error().id, ErrorId::kObjectNotFound);
}

TEST_F(TrainingSetsTest, colliding_names_are_refused) {
  world_.apply("FeatureView", "more",
               R"({"entity":"customer","source":"tx",)"
               R"("features":[{"name":"amount","type":"float64"}]})");
  world_.apply("FeatureService", "svc", R"({"features":["activity","more"]})");
  EXPECT_EQ(freeze().error().id, ErrorId::kFeatureNameCollision);
  world_.apply("FeatureService", "svc", R"({"features":["activity","labels"]})");
  const auto leak = freeze();
  ASSERT_FALSE(leak.ok());
  EXPECT_EQ(leak.error().id, ErrorId::kFeatureNameCollision);
  EXPECT_THAT(leak.error().message, HasSubstr("is_fraud"));
}

TEST_F(TrainingSetsTest, a_lost_segment_is_named) {
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-02,0\n");
  const auto report = world_.append("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  ASSERT_TRUE(report.ok());
  ASSERT_TRUE(world_.blobs->remove(world_.owner_of_view("activity"), report->segments.at(0)).ok());
  const auto manifest = freeze();
  ASSERT_FALSE(manifest.ok());
  EXPECT_EQ(manifest.error().id, ErrorId::kSegmentCorrupt);
  EXPECT_THAT(manifest.error().message, HasSubstr(report->segments.at(0).str()));
}

TEST_F(TrainingSetsTest, zones_do_not_mix) {
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-02,0\n");
  world_.context.zone = Zone("eu");
  EXPECT_EQ(freeze().error().code, Code::kPermissionDenied);
}

TEST_F(TrainingSetsTest, freezing_leaves_an_audit_entry_once) {
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-02,0\n");
  const auto manifest = freeze();
  ASSERT_TRUE(freeze().ok());
  EXPECT_EQ(world_.audit.head()->sequence, 3);
  const auto entry = world_.audit.get(3);
  ASSERT_TRUE(entry.ok());
  EXPECT_EQ(entry->action, "training_set.freeze");
  EXPECT_EQ(entry->detail["id"].as_string(), manifest->id);
}

TEST_F(TrainingSetsTest, a_manifest_reads_back_equal) {
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  ingest("labels", "customer_id,at,is_fraud\n1,2026-01-02,0\n");
  const auto manifest = freeze();
  ASSERT_TRUE(manifest.ok());
  const auto back = manifest_from_value(to_value(*manifest));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(to_value(*back), to_value(*manifest));
}

TEST_F(TrainingSetsTest, a_split_by_key_keeps_an_entity_on_one_side) {
  world_.apply("TrainingSet", "set",
               R"({"service":"svc","spine":{"view":"labels","label":"is_fraud"},)"
               R"("split":{"by":"customer_id","valid":"30%"}})");
  std::string csv = "customer_id,at,is_fraud\n";
  for (int i = 0; i < 2000; ++i) csv += std::to_string(i % 500) + ",2026-01-02,0\n";
  ingest("activity", std::string(kHeader) + "1,2026-01-01,,10,a\n");
  ingest("labels", csv);
  const auto manifest = freeze();
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_NEAR(static_cast<double>(manifest->rows_valid), 600, 120);
  const table::Batch rows = data(*manifest);
  std::map<std::int64_t, std::string> side;
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    const std::string now(rows.find("split")->strings()[i]);
    const auto [seen, added] = side.try_emplace(rows.find("customer_id")->ints()[i], now);
    ASSERT_EQ(seen->second, now);
  }
}

// The stores that run in production, opened over one folder as a start of the program does.
struct DiskWorld {
  explicit DiskWorld(const table::TestFolder& folder)
      : sql(std::move(storage::open_sqlite(folder.file("meta.db"))).value()),
        kv(std::move(storage::open_rocksdb(folder.file("online"))).value()),
        blobs(std::move(storage::open_files(folder.file("blobs"))).value()),
        audit(*sql, clock),
        training_sets(*sql, *blobs, audit, clock) {
    EXPECT_TRUE(
        sql->migrate({storage::kObjectsMigration, security::kAuditMigration, kFeaturesMigration,
                      kReachMigration, kErasureMigration, kProfilesMigration})
            .ok());
    context.principal.id = "user:test";
    context.project = ProjectName("pay");
    context.zone = Zone("ae");
  }

  void apply(const char* kind, const char* name, const char* spec) {
    storage::Object object;
    object.kind = kind;
    object.project = "pay";
    object.name = name;
    object.spec = json(spec);
    const Status status = sql->write([&](storage::SqlTransaction& tx) -> Status {
      FALAJ_TRY(storage::put_object(tx, object, clock.now()));
      return {};
    });
    ASSERT_TRUE(status.ok()) << status.error().message;
  }

  void apply_all() {
    apply("Entity", "customer", R"({"keys":[{"name":"id","type":"string"}]})");
    apply("Source", "s", R"({"event_time":"at"})");
    apply("FeatureView", "v",
          R"({"entity":"customer","source":"s","features":[{"name":"x","type":"float64"}]})");
    apply("FeatureService", "svc", R"({"features":["v"]})");
    apply("TrainingSet", "set",
          R"({"service":"svc","spine":{"path":"l","time":"at","label":"y"}})");
  }

  double read(const std::string& id) {
    const auto online = std::move(Online::open(*sql, *kv, *blobs)).value();
    OnlineRow row;
    const std::vector<KeyPart> key{id};
    online->read(*online->plan(context.project, "svc").value(), key, clock.now(), row);
    return row.numbers.at(0);
  }

  Result<Manifest> freeze(const std::string& spine, const std::string& suffix) {
    FreezeOptions options;
    options.name_suffix = suffix;
    const TextReader file(spine);
    options.spine_file = &file;
    options.spine_format = table::Format::kCsv;
    return training_sets.freeze(context, "set", options);
  }

  FakeClock clock;
  security::RequestContext context;
  std::unique_ptr<storage::SqlStore> sql;
  std::unique_ptr<storage::KvStore> kv;
  std::unique_ptr<storage::BlobStore> blobs;
  security::Audit audit;
  TrainingSets training_sets;
};

// The path of the one file of that name anywhere below.
std::string file_named(const std::string& folder, const std::string& name) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename() == name) return entry.path().string();
  }
  ADD_FAILURE() << "no file " << name;
  return "";
}

TEST(FeaturesOnDisk, survive_a_restart_and_notice_a_flipped_byte) {
  const table::TestFolder folder;
  const std::string spine = "id,at,y\nann,2026-01-02,1\n";
  std::string segment;
  {
    DiskWorld world(folder);
    world.apply_all();
    const auto online = std::move(Online::open(*world.sql, *world.kv, *world.blobs)).value();
    telemetry::Metrics metrics;
    Ingest ingest(*world.sql, *world.blobs, *online, world.audit, metrics, world.clock);
    const TextReader rows("id,at,x\nann,2026-01-01,4\n");
    const auto report = ingest.append(world.context, "v", {rows, table::Format::kCsv, {}});
    ASSERT_TRUE(report.ok()) << report.error().message;
    segment = file_named(folder.path(), report->segments.at(0).str());
  }
  {
    DiskWorld world(folder);
    EXPECT_EQ(world.read("ann"), 4.0);
    ASSERT_TRUE(world.freeze(spine, "-1").ok());
  }
  std::string bytes = table::bytes_of_file(segment);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_EQ(::chmod(segment.c_str(), 0644), 0);
  std::ofstream(segment, std::ios::binary) << bytes;
  DiskWorld world(folder);
  const auto manifest = world.freeze(spine, "-2");
  ASSERT_FALSE(manifest.ok());
  EXPECT_EQ(manifest.error().id, ErrorId::kSegmentCorrupt);
}

// Over several ingests, out of order, with corrections: equal to a scan of everything.
TEST_F(TrainingSetsTest, agrees_with_a_scan_over_random_ingests) {
  for (std::uint32_t seed = 0; seed < 15; ++seed) {
    SCOPED_TRACE(seed);
    FeatureWorld world;
    world.apply_activity("5d");
    world.apply("TrainingSet", "from_file",
                R"({"service":"svc","spine":{"path":"l","time":"at","label":"y"}})");
    std::mt19937 random(seed);
    struct Row {
      int key, event, created, amount;
    };
    std::vector<Row> all;
    const auto day = [](int n) {
      return "2026-01-" + std::string(n < 10 ? "0" : "") + std::to_string(n);
    };
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    for (int file = 0; file < 4; ++file) {
      std::string csv = kHeader;
      for (int i = 0; i < 30; ++i) {
        const Row row{pick(5), 1 + pick(20), 1 + pick(3), static_cast<int>(all.size())};
        all.push_back(row);
        csv += std::to_string(row.key) + "," + day(row.event) + "," + day(row.created) + "," +
               std::to_string(row.amount) + ",c\n";
      }
      ASSERT_TRUE(world.append("activity", csv).ok());
    }
    std::string spine = "customer_id,at,y\n";
    std::vector<double> want;
    std::vector<std::uint8_t> valid;
    for (int i = 0; i < 60; ++i) {
      const int key = pick(6);
      const int at = 1 + pick(28);
      spine += std::to_string(key) + "," + day(at) + ",1\n";
      const Row* best = nullptr;
      for (const Row& row : all) {
        if (row.key != key || row.event > at || row.event < at - 5) continue;
        if (best == nullptr || std::tie(row.event, row.created, row.amount) >
                                   std::tie(best->event, best->created, best->amount)) {
          best = &row;
        }
      }
      want.push_back(best == nullptr ? 0 : best->amount);
      valid.push_back(best == nullptr ? 0 : 1);
    }
    FreezeOptions options;
    const TextReader file(spine);
    options.spine_file = &file;
    options.spine_format = table::Format::kCsv;
    const auto manifest = world.training_sets->freeze(world.context, "from_file", options);
    ASSERT_TRUE(manifest.ok()) << manifest.error().message;
    const auto stored = world.blobs->open(owner_of(*manifest), manifest->data);
    ASSERT_TRUE(stored.ok());
    const auto rows = table::read_all(**stored, table::Format::kParquet);
    ASSERT_EQ(*rows->find("amount"), table::Column::of_doubles(want, valid));
  }
}

// Counts how often it is asked: a freeze asks after every pass over the views.
class CountingClock final : public Clock {
 public:
  Timestamp now() const override {
    ++asked_;
    return asked_ > late_after_ ? Timestamp::max() : Timestamp::from_seconds(1'780'000'000);
  }
  int asked() const { return asked_; }
  // The deadline of whoever asks has passed after so many more questions.
  void be_late_after(int questions) { late_after_ = asked_ + questions; }

 private:
  mutable int asked_ = 0;
  int late_after_ = std::numeric_limits<int>::max();
};

// A spine of several passes, a split by time, values that are late, texts and nulls.
std::string long_spine(int rows) {
  std::string csv = "customer_id,at,is_fraud\n";
  for (int i = 0; i < rows; ++i) {
    csv += std::to_string(i * 7 % 400) + ",2026-01-" + (i % 9 == 0 ? "02" : "05") + "," +
           std::to_string(i % 2) + "\n";
  }
  return csv;
}

TEST_F(TrainingSetsTest, a_spine_larger_than_the_cap_freezes_to_the_same_bytes) {
  std::string rows = kHeader;
  for (int key = 0; key < 300; ++key) {
    rows += std::to_string(key) + ",2026-01-0" + std::to_string(1 + key % 3) + ",2026-01-0" +
            std::to_string(1 + key % 5) + "," + std::to_string(key) + ",city " +
            std::to_string(key % 17) + "\n";
  }
  ingest("activity", rows);
  const TextReader spine(long_spine(40'000));
  const auto frozen_by = [&](TrainingSets& sets, const std::string& suffix) {
    FreezeOptions options;
    options.spine_file = &spine;
    options.spine_format = table::Format::kCsv;
    options.name_suffix = suffix;
    return sets.freeze(world_.context, "from_file", options);
  };
  const CountingClock at_once;
  TrainingSets ample(*world_.sql, *world_.blobs, world_.audit, at_once);
  const auto whole = frozen_by(ample, "-whole");
  ASSERT_TRUE(whole.ok()) << whole.error().message;

  CountingClock in_passes;
  TrainingSets tight(*world_.sql, *world_.blobs, world_.audit, in_passes, {1});
  const auto pieces = frozen_by(tight, "-pieces");
  ASSERT_TRUE(pieces.ok()) << pieces.error().message;
  EXPECT_EQ(in_passes.asked() - at_once.asked(), 2);  // Three passes instead of one.
  EXPECT_EQ(pieces->data_sha256, whole->data_sha256);
  EXPECT_EQ(pieces->leakage, whole->leakage);
  EXPECT_GT(pieces->leakage.at(0).created_later, 0u);
  EXPECT_EQ(pieces->rows_valid, whole->rows_valid);
  EXPECT_EQ(data(*pieces).rows(), 40'000u);

  // Who no longer waits gets no set, and nothing is recorded of it.
  world_.context.deadline = Timestamp::from_seconds(1'790'000'000);
  in_passes.be_late_after(1);
  const auto late = frozen_by(tight, "-late");
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
  EXPECT_FALSE(tight.latest(world_.context.project, "from_file-late").ok());
}

}  // namespace
}  // namespace falaj::features
