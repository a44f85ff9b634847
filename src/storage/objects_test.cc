#include "storage/objects.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "storage/open.h"

namespace falaj::storage {
namespace {

class Objects : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store_->migrate({kObjectsMigration}).ok()); }

  PutOutcome put(const Object& object, std::int64_t seconds = 1) {
    PutOutcome outcome{};
    const Status status = store_->write([&](SqlTransaction& tx) -> Status {
      outcome = FALAJ_TRY(put_object(tx, object, Timestamp::from_seconds(seconds)));
      return {};
    });
    EXPECT_TRUE(status.ok()) << status.error().message;
    return outcome;
  }

  Result<Object> get(const std::string& name) {
    Object object;
    FALAJ_TRY(store_->read([&](SqlTransaction& tx) -> Status {
      object = FALAJ_TRY(get_object(tx, "Entity", "payments", name));
      return {};
    }));
    return object;
  }

  std::unique_ptr<SqlStore> store_ = make_fake_sql();
};

Object entity(const std::string& name, const std::string& spec) {
  return {"Entity", "payments", name, Value(), parse_json(spec).value(), 0, {}, {}};
}

TEST_F(Objects, counts_generations_only_when_something_changed) {
  EXPECT_EQ(put(entity("customer", R"({"a":1,"b":2})"), 1), PutOutcome::kCreated);
  EXPECT_EQ(put(entity("customer", R"({"b":2,"a":1})"), 2), PutOutcome::kUnchanged);
  EXPECT_EQ(get("customer")->updated_at, Timestamp::from_seconds(1));
  EXPECT_EQ(put(entity("customer", R"({"a":1})"), 3), PutOutcome::kChanged);
  Object labelled = entity("customer", R"({"a":1})");
  labelled.labels = parse_json(R"({"team":"risk"})").value();
  EXPECT_EQ(put(labelled, 4), PutOutcome::kChanged);
  const Object now = get("customer").value();
  EXPECT_EQ(now.generation, 3);
  EXPECT_EQ(now.created_at, Timestamp::from_seconds(1));
  EXPECT_EQ(now.updated_at, Timestamp::from_seconds(4));
  EXPECT_EQ(now.labels.text("team"), "risk");
}

TEST_F(Objects, a_missing_name_suggests_the_nearest) {
  put(entity("customer", "{}"));
  const auto missing = get("custmer");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().id, ErrorId::kObjectNotFound);
  for (const char* part : {"Entity", "payments", "custmer", "\"customer\""}) {
    EXPECT_NE(missing.error().message.find(part), std::string::npos) << missing.error().message;
  }
}

TEST_F(Objects, lists_in_order_and_filters) {
  put(entity("b", "{}"));
  put(entity("a", "{}"));
  put({"Zone", "", "ae", Value(), Value::object(), 0, {}, {}});
  std::vector<std::string> all;
  std::vector<std::string> zones;
  std::size_t in_project = 0;
  ASSERT_TRUE(store_
                  ->read([&](SqlTransaction& tx) -> Status {
                    for (const Object& o : FALAJ_TRY(list_objects(tx))) all.push_back(o.name);
                    for (const Object& o : FALAJ_TRY(list_objects(tx, "Zone"))) {
                      zones.push_back(o.name);
                    }
                    in_project = FALAJ_TRY(list_objects(tx, "", "payments")).size();
                    return {};
                  })
                  .ok());
  EXPECT_EQ(all, (std::vector<std::string>{"a", "b", "ae"}));
  EXPECT_EQ(zones, std::vector<std::string>{"ae"});
  EXPECT_EQ(in_project, 2u);
}

TEST_F(Objects, deletes_once_and_keeps_the_history) {
  put(entity("customer", R"({"a":1})"), 1);
  put(entity("customer", R"({"a":2})"), 2);
  const auto remove = [&] {
    return store_->write(
        [](SqlTransaction& tx) { return delete_object(tx, "Entity", "payments", "customer"); });
  };
  EXPECT_TRUE(remove().ok());
  EXPECT_EQ(remove().error().id, ErrorId::kObjectNotFound);
  std::vector<Object> history;
  ASSERT_TRUE(store_
                  ->read([&](SqlTransaction& tx) -> Status {
                    history = FALAJ_TRY(object_history(tx, "Entity", "payments", "customer"));
                    return {};
                  })
                  .ok());
  ASSERT_EQ(history.size(), 2u);
  EXPECT_EQ(history[0].spec.integer("a"), 2);
  EXPECT_EQ(history[1].spec.integer("a"), 1);
}

TEST_F(Objects, a_name_declared_again_goes_on_counting_generations) {
  put(entity("customer", R"({"a":1})"), 1);
  put(entity("customer", R"({"a":2})"), 2);
  ASSERT_TRUE(store_
                  ->write([](SqlTransaction& tx) {
                    return delete_object(tx, "Entity", "payments", "customer");
                  })
                  .ok());
  EXPECT_EQ(put(entity("customer", R"({"a":1})"), 3), PutOutcome::kCreated);
  EXPECT_EQ(get("customer")->generation, 3);
  EXPECT_EQ(get("customer")->created_at, Timestamp::from_seconds(3));
  EXPECT_EQ(put(entity("customer", R"({"a":2})"), 4), PutOutcome::kChanged);
  EXPECT_EQ(get("customer")->generation, 4);
}

TEST_F(Objects, a_stored_object_tells_its_generation_and_times) {
  put(entity("customer", R"({"a":1})"), 1);
  put(entity("customer", R"({"a":2})"), 2);
  const Value value = to_value(get("customer").value());
  EXPECT_EQ(value["metadata"].integer("generation"), 2);
  EXPECT_EQ(value["metadata"].text("created_at"), "1970-01-01T00:00:01Z");
  EXPECT_EQ(value["metadata"].text("updated_at"), "1970-01-01T00:00:02Z");
  // They are told, never taken.
  EXPECT_EQ(object_from_value(value).error().id, ErrorId::kUnknownField);
}

TEST(ObjectForm, goes_to_a_value_and_back) {
  Object object = entity("customer", R"({"keys":[{"name":"id"}]})");
  object.labels = parse_json(R"({"team":"risk"})").value();
  const Value value = to_value(object);
  EXPECT_EQ(value.text("apiVersion"), "falaj.dev/v1");
  const auto back = object_from_value(value);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(to_value(*back), value);
}

TEST(ObjectForm, refuses_what_it_does_not_know) {
  const std::string head = R"({"apiVersion":"falaj.dev/v1","kind":"Entity",)";
  const struct {
    std::string text;
    ErrorId id;
  } cases[] = {
      {R"({"kind":"Entity","metadata":{"name":"a"}})", ErrorId::kMissingField},
      {R"({"apiVersion":"v9","kind":"Entity","metadata":{"name":"a"}})", ErrorId::kOutOfRange},
      {head + R"("metadata":{}})", ErrorId::kMissingField},
      {head + R"("metadata":{"name":"A b"}})", ErrorId::kInvalidName},
      {head + R"("metadata":{"name":"a","project":"../x"}})", ErrorId::kInvalidName},
      {head + R"("metadata":{"name":"a","colour":"red"}})", ErrorId::kUnknownField},
      {head + R"("metadata":{"name":"a","labels":{"n":1}}})", ErrorId::kWrongType},
      {head + R"("metadata":{"name":"a","labels":[1]}})", ErrorId::kWrongType},
      {head + R"("metadata":{"name":"a"},"spec":[]})", ErrorId::kWrongType},
      {head + R"("metadata":{"name":"a"},"status":{}})", ErrorId::kUnknownField},
  };
  for (const auto& c : cases) {
    const auto object = object_from_value(parse_json(c.text).value());
    ASSERT_FALSE(object.ok()) << c.text;
    EXPECT_EQ(object.error().id, c.id) << c.text << ": " << object.error().message;
  }
}

}  // namespace
}  // namespace falaj::storage
