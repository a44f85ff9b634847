// base/error_ids.h — every error a user can meet, declared once.
//
// The number is stable for ever: scripts and support tickets quote `FJ-1003`. A number is never
// reused. `falaj explain FJ-1003` and docs/reference/errors.md print this table.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace falaj {

// The outcome classes. HTTP and gRPC statuses are derived from them in net/error_map.h.
enum class Code : std::uint8_t {
  kInvalidArgument = 1,
  kUnauthenticated,
  kPermissionDenied,
  kNotFound,
  kConflict,
  kFailedPrecondition,
  kResourceExhausted,
  kCancelled,
  kInternal,
  kDataLoss,
  kUnimplemented,
  kUnavailable,
  kDeadlineExceeded,
};

// 0001–0099 mirror Code, for failures that need no entry of their own.
// 1000s input, 2000s objects, 3000s data and features, 4000s training and jobs, 5000s models and
// serving, 6000s monitoring and loop, 7000s security and audit, 8000s storage and start.
enum class ErrorId : std::uint16_t {
  kInvalidArgument = 1,
  kUnauthenticated = 2,
  kPermissionDenied = 3,
  kNotFound = 4,
  kConflict = 5,
  kFailedPrecondition = 6,
  kResourceExhausted = 7,
  kCancelled = 8,
  kInternal = 9,
  kDataLoss = 10,
  kUnimplemented = 11,
  kUnavailable = 12,
  kDeadlineExceeded = 13,

  kMalformedJson = 1001,
  kMalformedYaml = 1002,
  kUnknownField = 1003,
  kMissingField = 1004,
  kWrongType = 1005,
  kOutOfRange = 1006,
  kInvalidUtf8 = 1007,
  kTooDeep = 1008,
  kBodyTooLarge = 1009,
  kInvalidName = 1010,
  kInvalidUnit = 1011,
  kDuplicateField = 1012,
  kUnknownSetting = 1013,
  kHostRefused = 1014,
  kFileUnreadable = 1015,
  kUsage = 1016,

  kObjectNotFound = 2001,
  kUnknownKind = 2002,
  kReferenceMissing = 2003,
  kReferenceCycle = 2004,
  kStillReferenced = 2005,
  kImmutableField = 2006,
  kStaleGeneration = 2007,
  kDuplicateObject = 2008,

  kMalformedTable = 3001,
  kSchemaMismatch = 3002,
  kAllRowsRejected = 3003,
  kSegmentCorrupt = 3004,
  kFeatureNameCollision = 3005,
  kSpineInvalid = 3006,
  kEntityKeyMissing = 3007,
  kPushRefused = 3040,
  kExpressionInvalid = 3050,
  kExpectationBroken = 3051,

  kJobFailed = 4001,
  kJobKilled = 4002,
  kJobOutOfMemory = 4003,
  kJobTimedOut = 4004,
  kQueueFull = 4005,
  kOnnxMismatch = 4006,
  kEngineUnavailable = 4007,
  kJobOutOfDisk = 4008,
  kImageRefused = 4040,

  kModelNotFound = 5001,
  kModelCorrupt = 5002,
  kModelNotReady = 5003,
  kTensorMismatch = 5004,
  kRuntimeUnavailable = 5005,
  kOverloaded = 5040,

  kMonitorNoReference = 6001,
  kLabelsMissing = 6002,

  kAuditBroken = 7001,
  kReplayDiffers = 7002,
  kUnsafeListen = 7003,
  kSetupPending = 7010,
  kCredentialRefused = 7011,
  kCredentialExpired = 7012,
  kTokenMalformed = 7013,
  kCsrfRefused = 7014,
  kReasonMissing = 7015,
  kRateLimited = 7016,
  kQuotaReached = 7017,
  kPeerRefused = 7018,
  kProviderUnavailable = 7019,
  kZoneMissing = 7030,
  kZoneRefused = 7031,
  kTransferInvalid = 7032,
  kPurposeRefused = 7033,
  kRetentionHeld = 7034,
  kVaultSealed = 7040,
  kKeyMissing = 7041,
  kKeyVersionRefused = 7042,
  kDecryptFailed = 7043,
  kAuditUnavailable = 7050,
  kRolledBack = 7051,
  kProofInvalid = 7052,
  kSignerUnavailable = 7053,
  kWitnessRefused = 7054,
  kModelFormatRefused = 7060,
  kModelSignatureInvalid = 7061,
  kSandboxUnavailable = 7062,
  kJobScopeExceeded = 7063,

  kDataFolderLocked = 8001,
  kDataFolderReadOnly = 8002,
  kDataFolderFull = 8003,
  kDataFolderNewer = 8004,
  kDatabaseCorrupt = 8005,
  kBlobCorrupt = 8006,
  kPortInUse = 8007,
  kServerUnreachable = 8008,
  kOnlineStoreUnavailable = 8009,
  kOnlineStoreRefused = 8010,
};

struct ErrorInfo {
  ErrorId id;
  Code code;
  std::string_view title;      // What went wrong, in one line.
  std::string_view next_step;  // What a person can do about it.
};

// The row for `id`. Every enumerator has one; a test walks the table.
const ErrorInfo& error_info(ErrorId id);

// The whole table, ascending by number.
std::span<const ErrorInfo> all_errors();

// The row for a text such as "FJ-1003" (any case) or "1003"; nullptr if there is none.
const ErrorInfo* find_error(std::string_view text);

// The generic row of a class, e.g. kNotFound → FJ-0004.
ErrorId generic_error_id(Code code);

// The name as it stands in reply bodies: "not_found".
std::string_view code_name(Code code);

}  // namespace falaj
