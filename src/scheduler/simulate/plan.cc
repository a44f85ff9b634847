#include "scheduler/simulate/plan.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace falaj::scheduler::simulate {
namespace {

constexpr double kShortWaitSeconds = 60;

double share_worse(double before, double after) { return before > 0 ? after / before - 1 : 0; }

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100);
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::vector<TenantChange> changes(const Summary& current, const Summary& next) {
  std::map<std::string, const TenantSummary*> before;
  for (const TenantSummary& tenant : current.tenants) before[tenant.name] = &tenant;
  std::vector<TenantChange> out;
  for (const TenantSummary& after : next.tenants) {
    const auto found = before.find(after.name);
    if (found == before.end()) continue;
    const TenantSummary& was = *found->second;
    out.push_back({after.name, was.wait_mean, after.wait_mean, was.jct_mean, after.jct_mean,
                   was.cost, after.cost});
  }
  std::stable_sort(out.begin(), out.end(), [](const TenantChange& a, const TenantChange& b) {
    return a.wait_after - a.wait_before > b.wait_after - b.wait_before;
  });
  return out;
}

void check_share(std::vector<std::string>& broken, const std::string& what, double before,
                 double after, double most) {
  const double worse = share_worse(before, after);
  if (worse <= most) return;
  broken.push_back(what + " grows by " + percent(worse) + ", more than " + percent(most));
}

void check_deadlines(std::vector<std::string>& broken, const Plan& plan, std::int64_t most) {
  const auto& before = plan.current.deadlines_missed;
  std::vector<std::string> newly;
  for (const std::string& job : plan.next.deadlines_missed) {
    if (std::find(before.begin(), before.end(), job) == before.end()) newly.push_back(job);
  }
  const auto count = static_cast<std::int64_t>(newly.size());
  if (count <= most) return;
  broken.push_back("job " + newly.front() + " would miss its deadline" +
                   (count > 1 ? ", and " + std::to_string(count - 1) + " more" : std::string()));
}

std::vector<std::string> broken_rails(const Plan& plan, const GuardRails& rails) {
  std::vector<std::string> broken;
  check_share(broken, "the mean completion time", plan.current.jct.mean, plan.next.jct.mean,
              rails.jct_worse_by);
  check_share(broken, "the cost", plan.current.cost, plan.next.cost, rails.cost_worse_by);
  for (const TenantChange& tenant : plan.tenants) {
    check_share(broken, "the mean completion time of tenant " + tenant.tenant, tenant.jct_before,
                tenant.jct_after, rails.tenant_jct_worse_by);
    // Of what is short anyway a multiple says little.
    if (tenant.wait_after <= kShortWaitSeconds) continue;
    check_share(broken, "the mean wait of tenant " + tenant.tenant,
                std::max(tenant.wait_before, kShortWaitSeconds), tenant.wait_after,
                rails.tenant_wait_worse_by);
  }
  if (plan.next.jain < rails.jain_min) {
    broken.push_back("fairness between tenants is " + number(plan.next.jain) + ", under " +
                     number(rails.jain_min));
  }
  if (plan.next.preemptions_per_job > rails.preemptions_per_job_max) {
    broken.push_back("jobs are preempted " + number(plan.next.preemptions_per_job) +
                     " times on average, more than " + number(rails.preemptions_per_job_max));
  }
  check_deadlines(broken, plan, rails.deadlines_newly_missed_max);
  if (plan.next.refused > plan.current.refused) broken.emplace_back("jobs are refused");
  return broken;
}

}  // namespace

Plan compare(Summary current, Summary next, const GuardRails& rails) {
  Plan plan;
  plan.tenants = changes(current, next);
  plan.current = std::move(current);
  plan.next = std::move(next);
  plan.broken = broken_rails(plan, rails);
  return plan;
}

Value to_value(const Plan& plan) {
  Value value = Value::object();
  value["current"] = to_value(plan.current);
  value["next"] = to_value(plan.next);
  value["tenants"] = Value::array();
  for (const TenantChange& tenant : plan.tenants) {
    Value row = Value::object();
    row["tenant"] = tenant.tenant;
    row["wait_before_s"] = tenant.wait_before;
    row["wait_after_s"] = tenant.wait_after;
    row["jct_before_s"] = tenant.jct_before;
    row["jct_after_s"] = tenant.jct_after;
    row["cost_before"] = tenant.cost_before;
    row["cost_after"] = tenant.cost_after;
    value["tenants"].push(std::move(row));
  }
  value["broken"] = Value::array();
  for (const std::string& broken : plan.broken) value["broken"].push(broken);
  return value;
}

}  // namespace falaj::scheduler::simulate
