#include "catalog/catalog.h"

#include <gtest/gtest.h>

#include "base/decode.h"
#include "storage/open.h"

namespace falaj::catalog {
namespace {

storage::KindInfo kind_with_parent(std::string kind, storage::Scope scope) {
  return {kind, scope, "For tests.",
          [kind](const Object& object) -> Result<std::vector<storage::Reference>> {
            Fields fields(object.spec, kind + " spec");
            const std::string parent = FALAJ_TRY(fields.text("parent"));
            FALAJ_TRY(fields.finish());
            if (parent.empty()) return std::vector<storage::Reference>{};
            return std::vector<storage::Reference>{{kind, object.project, parent}};
          }};
}

// 'parent' is a plain text here: it may be left out, but never become another one.
storage::KindInfo kind_with_fixed_parent() {
  return {"Fixed", storage::Scope::kProject, "For tests.",
          [](const Object&) { return std::vector<storage::Reference>{}; },
          [](const Object& before, const Object& after) -> Status {
            const std::string old = before.spec.text("parent");
            const std::string next = after.spec.text("parent");
            if (old.empty() || next.empty() || old == next) return {};
            return Error{ErrorId::kImmutableField, "parent"};
          }};
}

// A Guest makes sense only beside a Node that is open.
storage::KindInfo kind_of_guests() {
  storage::KindInfo kind = kind_with_parent("Guest", storage::Scope::kProject);
  const auto check = kind.check;
  kind.check = [check](const Object& object) -> Result<std::vector<storage::Reference>> {
    std::vector<storage::Reference> references = FALAJ_TRY(check(object));
    for (storage::Reference& reference : references) reference.kind = "Node";
    return references;
  };
  kind.check_beside = [](const Object& guest, const storage::FindObject& find) -> Status {
    const Object* host = find({"Node", guest.project, guest.spec.text("parent")});
    if (host != nullptr && host->labels.has("open")) return {};
    return Error{ErrorId::kReferenceMissing, guest.name + " finds its host closed"};
  };
  return kind;
}

Object object(std::string kind, std::string project, std::string name, std::string parent = "") {
  Object made;
  made.kind = std::move(kind);
  made.project = std::move(project);
  made.name = std::move(name);
  made.spec = Value::object();
  if (!parent.empty()) made.spec["parent"] = parent;
  return made;
}

Object project(std::string name) {
  Object made = object("Project", "", std::move(name));
  made.spec["zone"] = "ae";
  return made;
}

class CatalogTest : public testing::Test {
 protected:
  CatalogTest() {
    EXPECT_TRUE(sql_->migrate({storage::kObjectsMigration, security::kAuditMigration}).ok());
    std::vector<storage::KindInfo> kinds = platform_kinds();
    kinds.push_back(kind_with_parent("Node", storage::Scope::kProject));
    kinds.push_back(kind_with_fixed_parent());
    kinds.push_back(kind_of_guests());
    kinds.push_back({"TrainJob", storage::Scope::kProject, "A job.",
                     [](const Object&) { return std::vector<storage::Reference>{}; }});
    catalog_ = std::make_unique<Catalog>(*sql_, audit_, clock_, kinds, [this] { ++changes_; });
    EXPECT_TRUE(apply({object("Zone", "", "ae"), project("payments")}).ok());
    changes_ = 0;
  }

  Result<std::vector<Applied>> apply(const std::vector<Object>& objects, Mode mode = Mode::kApply) {
    return catalog_->apply(context_, objects, mode);
  }
  std::int64_t audit_entries() { return audit_.head().value().sequence; }

  FakeClock clock_;
  std::unique_ptr<storage::SqlStore> sql_ = storage::make_fake_sql();
  security::Audit audit_{*sql_, clock_};
  security::RequestContext context_ =
      security::system_context("user:test", ProjectName("payments"), Zone("ae"));
  std::unique_ptr<Catalog> catalog_;
  int changes_ = 0;
};

TEST_F(CatalogTest, a_change_is_written_with_its_audit_entry) {
  const std::int64_t before = audit_entries();
  const auto applied = apply({object("Node", "payments", "a")});
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_EQ(applied->front().outcome, storage::PutOutcome::kCreated);
  EXPECT_EQ(audit_entries(), before + 1);
  EXPECT_EQ(changes_, 1);
  const auto entry = audit_.get(before + 1);
  EXPECT_EQ(entry->object, "Node/payments/a");
  EXPECT_EQ(entry->action, "object.apply");
}

TEST_F(CatalogTest, a_project_holds_no_more_objects_than_its_quota) {
  Object payments = project("payments");
  payments.spec["quota"]["objects"] = 2;
  ASSERT_TRUE(apply({payments, object("Node", "payments", "a")}).ok());
  const auto over = apply({object("Node", "payments", "b"), object("Node", "payments", "c")});
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().id, ErrorId::kQuotaReached);
  EXPECT_EQ(over.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(catalog_->list("Node", "payments")->size(), 1u) << "all or nothing";
  EXPECT_FALSE(
      apply({object("Node", "payments", "b"), object("Node", "payments", "c")}, Mode::kDryRun)
          .ok());
  ASSERT_TRUE(apply({object("Node", "payments", "b")}).ok());
  // Lowered below what is there: nothing new, and all that is there can still be changed.
  payments.spec["quota"]["objects"] = 1;
  Object changed = object("Node", "payments", "a");
  changed.labels["team"] = "risk";
  EXPECT_TRUE(apply({payments, changed}).ok());
  ASSERT_TRUE(apply({project("other")}).ok());
  EXPECT_TRUE(apply({object("Node", "other", "a")}).ok()) << "another project's is its own";
  payments.spec["quota"]["objects"] = "many";
  EXPECT_FALSE(apply({payments}).ok());
}

TEST_F(CatalogTest, the_same_again_changes_nothing) {
  ASSERT_TRUE(apply({object("Node", "payments", "a")}).ok());
  const std::int64_t before = audit_entries();
  const auto again = apply({object("Node", "payments", "a")});
  EXPECT_EQ(again->front().outcome, storage::PutOutcome::kUnchanged);
  EXPECT_EQ(audit_entries(), before);
}

TEST_F(CatalogTest, references_inside_one_call_count_in_any_order) {
  EXPECT_TRUE(
      apply({object("Node", "payments", "child", "top"), object("Node", "payments", "top")}).ok());
}

TEST_F(CatalogTest, one_bad_object_keeps_all_others_out) {
  const std::int64_t before = audit_entries();
  const auto result =
      apply({object("Node", "payments", "good"), object("Node", "payments", "bad", "missing")});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().id, ErrorId::kReferenceMissing);
  EXPECT_FALSE(catalog_->get("Node", "payments", "good").ok());
  EXPECT_EQ(audit_entries(), before);
  EXPECT_EQ(changes_, 0);
}

TEST_F(CatalogTest, a_dry_run_says_what_would_happen_and_does_nothing) {
  const std::int64_t before = audit_entries();
  const auto result = apply({object("Node", "payments", "a")}, Mode::kDryRun);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->front().outcome, storage::PutOutcome::kCreated);
  EXPECT_FALSE(catalog_->get("Node", "payments", "a").ok());
  EXPECT_EQ(audit_entries(), before);
}

TEST_F(CatalogTest, cycles_are_refused_with_their_way) {
  const auto result =
      apply({object("Node", "payments", "a", "b"), object("Node", "payments", "b", "a")});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().id, ErrorId::kReferenceCycle);
  EXPECT_NE(result.error().message.find("Node/payments/a → Node/payments/b"), std::string::npos);
  // Also when the circle closes only with a later change.
  ASSERT_TRUE(apply({object("Node", "payments", "c"), object("Node", "payments", "d", "c")}).ok());
  EXPECT_EQ(apply({object("Node", "payments", "c", "d")}).error().id, ErrorId::kReferenceCycle);
  EXPECT_EQ(apply({object("Node", "payments", "e", "e")}).error().id, ErrorId::kReferenceCycle);
}

TEST_F(CatalogTest, an_object_is_checked_beside_what_it_refers_to) {
  const Object closed = object("Node", "payments", "host");
  Object open = closed;
  open.labels["open"] = "yes";
  const Object guest = object("Guest", "payments", "guest", "host");
  EXPECT_EQ(apply({closed, guest}).error().id, ErrorId::kReferenceMissing);
  EXPECT_TRUE(apply({guest, open}).ok()) << "what stands after the apply counts, in any order";
  // The stored guest is asked as well when its host changes.
  const auto shut = apply({closed});
  ASSERT_FALSE(shut.ok());
  EXPECT_NE(shut.error().message.find("guest finds its host closed"), std::string::npos);
  EXPECT_TRUE(apply({open, object("Node", "payments", "other")}).ok());
}

TEST_F(CatalogTest, refuses_what_it_cannot_place) {
  EXPECT_EQ(apply({object("Nude", "payments", "a")}).error().id, ErrorId::kUnknownKind);
  EXPECT_NE(apply({object("Nude", "payments", "a")}).error().message.find("Node"),
            std::string::npos);
  EXPECT_EQ(apply({object("Node", "nobody", "a")}).error().id, ErrorId::kReferenceMissing);
  EXPECT_EQ(apply({object("Node", "", "a")}).error().id, ErrorId::kInvalidName);
  EXPECT_EQ(apply({object("Zone", "payments", "a")}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(apply({object("Node", "payments", "a"), object("Node", "payments", "a")}).error().id,
            ErrorId::kDuplicateObject);
}

TEST_F(CatalogTest, what_is_referred_to_cannot_be_deleted) {
  ASSERT_TRUE(
      apply({object("Node", "payments", "top"), object("Node", "payments", "child", "top")}).ok());
  const Status refused = catalog_->remove(context_, "Node", "payments", "top");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().id, ErrorId::kStillReferenced);
  EXPECT_NE(refused.error().message.find("Node/payments/child"), std::string::npos);
  EXPECT_EQ(catalog_->remove(context_, "Project", "", "payments").error().id,
            ErrorId::kStillReferenced);
  ASSERT_TRUE(catalog_->remove(context_, "Node", "payments", "child").ok());
  EXPECT_TRUE(catalog_->remove(context_, "Node", "payments", "top").ok());
}

TEST_F(CatalogTest, a_field_that_may_not_change_is_kept_also_over_a_deletion) {
  ASSERT_TRUE(apply({object("Fixed", "payments", "a", "one")}).ok());
  EXPECT_EQ(apply({object("Fixed", "payments", "a", "one")})->front().outcome,
            storage::PutOutcome::kUnchanged);
  EXPECT_EQ(apply({object("Fixed", "payments", "a", "two")}).error().id, ErrorId::kImmutableField);
  EXPECT_EQ(apply({object("Fixed", "payments", "a", "two")}, Mode::kDryRun).error().id,
            ErrorId::kImmutableField);
  EXPECT_EQ(catalog_->get("Fixed", "payments", "a")->spec.text("parent"), "one");
  // Left out and given again: still the first value counts.
  ASSERT_TRUE(apply({object("Fixed", "payments", "a")}).ok());
  EXPECT_EQ(apply({object("Fixed", "payments", "a", "two")}).error().id, ErrorId::kImmutableField);
  ASSERT_TRUE(catalog_->remove(context_, "Fixed", "payments", "a").ok());
  EXPECT_EQ(apply({object("Fixed", "payments", "a", "two")}).error().id, ErrorId::kImmutableField);
  EXPECT_TRUE(apply({object("Fixed", "payments", "a", "one")}).ok());
  EXPECT_TRUE(apply({object("Fixed", "payments", "b", "two")}).ok());
}

TEST_F(CatalogTest, another_purpose_than_the_projects_is_refused) {
  Object fraud = project("cards");
  fraud.spec["purpose"] = "fraud";
  Object job = object("TrainJob", "cards", "train");
  job.spec["purpose"] = "marketing";
  EXPECT_EQ(apply({fraud, job}).error().id, ErrorId::kPurposeRefused);
  ASSERT_TRUE(apply({fraud}).ok());
  EXPECT_EQ(apply({job}).error().id, ErrorId::kPurposeRefused);
  job.spec["purpose"] = "fraud";
  ASSERT_TRUE(apply({job}).ok());
  // Nor may the project become another one under its jobs.
  fraud.spec["purpose"] = "marketing";
  EXPECT_EQ(apply({fraud}).error().id, ErrorId::kPurposeRefused);
  job.spec["purpose"] = "marketing";
  EXPECT_TRUE(apply({fraud, job}).ok());
}

TEST_F(CatalogTest, the_zone_of_a_project_is_the_declared_one) {
  EXPECT_EQ(catalog_->zone_of("payments")->name(), "ae");
  EXPECT_EQ(catalog_->zone_of("nobody").error().id, ErrorId::kObjectNotFound);
}

}  // namespace
}  // namespace falaj::catalog
