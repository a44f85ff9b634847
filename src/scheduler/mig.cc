#include "scheduler/mig.h"

namespace falaj::scheduler {

MigShape mig_shape(MigProfile profile) {
  switch (profile) {
    case MigProfile::kWhole:
      return {};
    case MigProfile::k1g:
      return {1, 0b0111'1111};
    case MigProfile::k1gDouble:
      return {2, 0b0101'0101};
    case MigProfile::k2g:
      return {2, 0b0001'0101};
    case MigProfile::k3g:
      return {4, 0b0001'0001};
    case MigProfile::k4g:
      return {4, 0b0000'0001};
    case MigProfile::k7g:
      return {8, 0b0000'0001};
  }
  return {};
}

std::uint8_t mig_slices(MigProfile profile, std::uint32_t start) {
  if (start > 7) return 0xff;
  const std::uint32_t run = (1U << mig_shape(profile).slices) - 1U;
  return static_cast<std::uint8_t>(run << start);
}

std::uint8_t mig_start(MigProfile profile, std::uint8_t used) {
  const MigShape shape = mig_shape(profile);
  for (int start = 7; start >= 0; --start) {
    const auto at = static_cast<std::uint32_t>(start);
    if ((shape.starts >> at & 1U) != 0 && (mig_slices(profile, at) & used) == 0) {
      return static_cast<std::uint8_t>(at);
    }
  }
  return 0xff;
}

std::int64_t mig_charge(MigProfile profile) {
  return profile == MigProfile::kWhole ? 1000 : 125 * std::int64_t{mig_shape(profile).slices};
}

std::string_view to_string(MigProfile profile) {
  switch (profile) {
    case MigProfile::kWhole:
      return "whole";
    case MigProfile::k1g:
      return "1g";
    case MigProfile::k1gDouble:
      return "1g.double";
    case MigProfile::k2g:
      return "2g";
    case MigProfile::k3g:
      return "3g";
    case MigProfile::k4g:
      return "4g";
    case MigProfile::k7g:
      return "7g";
  }
  return "whole";
}

}  // namespace falaj::scheduler
