#ifndef LYCAON_LYCAON_H
#define LYCAON_LYCAON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The version of this interface. It changes when programs have to be compiled anew; functions,
 * members at the end of structs that the library fills, and numbers may be added without that.
 */
#define LYCAON_ABI_VERSION 1

/**
 * The color of a rank that joins none of the groups of lycaon_group_split().
 */
#define LYCAON_COLOR_NONE -1

/**
 * How a call went. 0 is success; the hundreds say which family an error belongs to, and so what
 * state it leaves behind (docs/errors.md of the project says more).
 *
 * Programs must expect numbers that are not listed here: later versions may add some, in the same
 * families.
 */
typedef enum lycaon_status {
    /**
     * Success.
     */
    LYCAON_STATUS_OK = 0,
    /**
     * Wrong use of this interface: a pointer that must not be NULL is NULL.
     */
    LYCAON_STATUS_NULL_POINTER = 1,
    /**
     * Wrong use of this interface: a number is no variant of its enumeration.
     */
    LYCAON_STATUS_UNKNOWN_NUMBER = 2,
    /**
     * Wrong use of this interface: text that is not UTF-8.
     */
    LYCAON_STATUS_NOT_TEXT = 3,
    /**
     * Wrong use of this interface: a number is not in its range.
     */
    LYCAON_STATUS_OUT_OF_RANGE = 4,
    /**
     * Wrong use of this interface: a bug of the library, caught before it could reach the caller.
     */
    LYCAON_STATUS_INTERNAL = 5,
    /**
     * Argument: the operator is not defined for the element type.
     */
    LYCAON_STATUS_UNSUPPORTED = 100,
    /**
     * Argument: no element type has this number.
     */
    LYCAON_STATUS_UNKNOWN_DTYPE = 101,
    /**
     * Argument: no operator has this number.
     */
    LYCAON_STATUS_UNKNOWN_OP = 102,
    /**
     * Argument: a rank that is not in the group.
     */
    LYCAON_STATUS_NO_SUCH_RANK = 103,
    /**
     * Argument: a message to oneself.
     */
    LYCAON_STATUS_SELF_MESSAGE = 104,
    /**
     * Argument: a buffer has the wrong length.
     */
    LYCAON_STATUS_LENGTH = 105,
    /**
     * Argument: bytes that are no whole number of elements.
     */
    LYCAON_STATUS_RAGGED = 106,
    /**
     * Argument: a buffer cannot be cut into equal blocks.
     */
    LYCAON_STATUS_INDIVISIBLE = 107,
    /**
     * Argument: a list of counts has not one entry per rank.
     */
    LYCAON_STATUS_COUNTS = 108,
    /**
     * Argument: input and output overlap without being the same buffer.
     */
    LYCAON_STATUS_OVERLAP = 109,
    /**
     * Argument: a buffer that this rank has to give is missing.
     */
    LYCAON_STATUS_MISSING_BUFFER = 110,
    /**
     * Argument: a buffer was given that this rank has no use for.
     */
    LYCAON_STATUS_UNUSED_BUFFER = 111,
    /**
     * Argument: more bytes than this machine can address.
     */
    LYCAON_STATUS_TOO_LARGE = 112,
    /**
     * Argument: a collective was asked for with something that is none.
     */
    LYCAON_STATUS_NOT_A_COLLECTIVE = 113,
    /**
     * Argument: counts by rank in a form that the operation does not have.
     */
    LYCAON_STATUS_COUNTS_FORM = 114,
    /**
     * Argument: a reduction without an operator.
     */
    LYCAON_STATUS_MISSING_OP = 115,
    /**
     * Argument: an operator for an operation that does not reduce.
     */
    LYCAON_STATUS_UNUSED_OP = 116,
    /**
     * Configuration: a value is not what it must be.
     */
    LYCAON_STATUS_VALUE = 200,
    /**
     * Configuration: a variable is missing while others of its family are set.
     */
    LYCAON_STATUS_MISSING = 201,
    /**
     * Configuration: two values contradict each other.
     */
    LYCAON_STATUS_CONFLICT = 202,
    /**
     * Configuration: a file could not be read.
     */
    LYCAON_STATUS_FILE = 203,
    /**
     * Configuration: a file's content is wrong.
     */
    LYCAON_STATUS_CONTENT = 204,
    /**
     * Configuration: without a token only this machine may take part.
     */
    LYCAON_STATUS_TOKEN_NEEDED = 205,
    /**
     * Start: the start-up deadline passed.
     */
    LYCAON_STATUS_START_DEADLINE = 300,
    /**
     * Start: the rendezvous address could not be listened on or reached.
     */
    LYCAON_STATUS_UNREACHABLE = 301,
    /**
     * Start: one side does not know the job's token.
     */
    LYCAON_STATUS_AUTHENTICATION = 302,
    /**
     * Start: two ranks differ in something that must be equal.
     */
    LYCAON_STATUS_DISAGREEMENT = 303,
    /**
     * Start: two processes claim one rank.
     */
    LYCAON_STATUS_DUPLICATE_RANK = 304,
    /**
     * Start: a rank failed or went away while the group was forming.
     */
    LYCAON_STATUS_RANK_FAILED = 305,
    /**
     * Start: no link that both sides accept joins two ranks.
     */
    LYCAON_STATUS_NO_LINK = 306,
    /**
     * Start: the operating system refused something.
     */
    LYCAON_STATUS_SYSTEM = 307,
    /**
     * Start: the program's own all-gather function failed.
     */
    LYCAON_STATUS_SIDE_CHANNEL = 308,
    /**
     * Start: the wait was interrupted by the program.
     */
    LYCAON_STATUS_START_INTERRUPTED = 309,
    /**
     * Operation: a process ended without closing its group.
     */
    LYCAON_STATUS_RANK_DIED = 400,
    /**
     * Operation: a rank closed the group while others still needed it.
     */
    LYCAON_STATUS_RANK_LEFT = 401,
    /**
     * Operation: a link broke while both processes live.
     */
    LYCAON_STATUS_LINK_LOST = 402,
    /**
     * Operation: nothing moved for as long as the deadline allows.
     */
    LYCAON_STATUS_DEADLINE = 403,
    /**
     * Operation: two ranks called different things at the same place of the order.
     */
    LYCAON_STATUS_MISMATCH = 404,
    /**
     * Operation: the program asked for an end of waiting.
     */
    LYCAON_STATUS_INTERRUPTED = 405,
    /**
     * Operation: this process closed the group itself.
     */
    LYCAON_STATUS_CLOSED = 406,
    /**
     * Operation: this process is a fork of the one that owns the group.
     */
    LYCAON_STATUS_FORKED = 407,
    /**
     * Operation: a peer sent what the protocol does not allow.
     */
    LYCAON_STATUS_PROTOCOL = 408,
    /**
     * Operation: one of the library's own threads panicked: a bug to report.
     */
    LYCAON_STATUS_PANICKED = 409,
} lycaon_status;

/**
 * What is left behind by an error: the hundreds of its status.
 */
typedef enum lycaon_family {
    /**
     * Wrong use of this interface. Nothing was done.
     */
    LYCAON_FAMILY_USAGE = 0,
    /**
     * The call makes no sense; nothing was sent and the group goes on.
     */
    LYCAON_FAMILY_ARGUMENT = 1,
    /**
     * The environment or a value of a configuration is wrong; nothing was started.
     */
    LYCAON_FAMILY_CONFIG = 2,
    /**
     * The group could not be formed; nothing is left of it.
     */
    LYCAON_FAMILY_START = 3,
    /**
     * An operation failed; the group is poisoned, unless the wait of a lycaon_work was interrupted.
     */
    LYCAON_FAMILY_OPERATION = 4,
} lycaon_family;

/**
 * The operations of a group, as errors and the flight recorder name them.
 */
typedef enum lycaon_operation {
    /**
     * Every rank gets the reduction of all contributions.
     */
    LYCAON_OPERATION_ALL_REDUCE = 0,
    /**
     * Every rank gets the contributions of all ranks, in rank order.
     */
    LYCAON_OPERATION_ALL_GATHER = 1,
    /**
     * Rank i gets block i of the reduction of all contributions.
     */
    LYCAON_OPERATION_REDUCE_SCATTER = 2,
    /**
     * Every rank gets the root's buffer.
     */
    LYCAON_OPERATION_BROADCAST = 3,
    /**
     * The root gets the reduction of all contributions.
     */
    LYCAON_OPERATION_REDUCE = 4,
    /**
     * The root gets the contributions of all ranks, in rank order.
     */
    LYCAON_OPERATION_GATHER = 5,
    /**
     * Rank i gets block i of the root's buffer.
     */
    LYCAON_OPERATION_SCATTER = 6,
    /**
     * Rank i gets block i of every rank's buffer, in rank order.
     */
    LYCAON_OPERATION_ALL_TO_ALL = 7,
    /**
     * Rank i gets the reduction of the contributions of ranks 0 to i.
     */
    LYCAON_OPERATION_SCAN = 8,
    /**
     * Nobody returns before everybody has called.
     */
    LYCAON_OPERATION_BARRIER = 9,
    /**
     * A message to one rank.
     */
    LYCAON_OPERATION_SEND = 10,
    /**
     * A message from one rank.
     */
    LYCAON_OPERATION_RECV = 11,
    /**
     * A message to one rank and a message from one rank at the same time.
     */
    LYCAON_OPERATION_SEND_RECV = 12,
    /**
     * Sub-groups are formed.
     */
    LYCAON_OPERATION_SPLIT = 13,
    /**
     * No operation, one that this version has no number for, or all of them.
     */
    LYCAON_OPERATION_NONE = 255,
} lycaon_operation;

/**
 * What joins one pair of ranks.
 */
typedef enum lycaon_link_kind {
    /**
     * No link.
     */
    LYCAON_LINK_KIND_NONE = 0,
    /**
     * Threads of one process.
     */
    LYCAON_LINK_KIND_MEMORY = 1,
    /**
     * Shared memory of one host.
     */
    LYCAON_LINK_KIND_SHM = 2,
    /**
     * TCP sockets.
     */
    LYCAON_LINK_KIND_TCP = 3,
    /**
     * RDMA: verbs over Thunderbolt, Ethernet or InfiniBand.
     */
    LYCAON_LINK_KIND_RDMA = 4,
    /**
     * A kind that this version has no number for; `detail` of the link says more.
     */
    LYCAON_LINK_KIND_OTHER = 255,
} lycaon_link_kind;

/**
 * The type of one element of a buffer.
 */
typedef enum lycaon_dtype {
    /**
     * One byte, 0 or 1. Any other non-zero byte is read as 1.
     */
    LYCAON_DTYPE_BOOL = 0,
    /**
     * Signed 8-bit integer.
     */
    LYCAON_DTYPE_I8 = 1,
    /**
     * Signed 16-bit integer.
     */
    LYCAON_DTYPE_I16 = 2,
    /**
     * Signed 32-bit integer.
     */
    LYCAON_DTYPE_I32 = 3,
    /**
     * Signed 64-bit integer.
     */
    LYCAON_DTYPE_I64 = 4,
    /**
     * Unsigned 8-bit integer.
     */
    LYCAON_DTYPE_U8 = 5,
    /**
     * Unsigned 16-bit integer.
     */
    LYCAON_DTYPE_U16 = 6,
    /**
     * Unsigned 32-bit integer.
     */
    LYCAON_DTYPE_U32 = 7,
    /**
     * Unsigned 64-bit integer.
     */
    LYCAON_DTYPE_U64 = 8,
    /**
     * IEEE 754 binary16. Sums and products are accumulated in binary32 and rounded once.
     */
    LYCAON_DTYPE_F16 = 9,
    /**
     * bfloat16. Sums and products are accumulated in binary32 and rounded once.
     */
    LYCAON_DTYPE_BF16 = 10,
    /**
     * IEEE 754 binary32: `float`.
     */
    LYCAON_DTYPE_F32 = 11,
    /**
     * IEEE 754 binary64: `double`.
     */
    LYCAON_DTYPE_F64 = 12,
    /**
     * Two binary32: real and imaginary part.
     */
    LYCAON_DTYPE_COMPLEX64 = 13,
    /**
     * Two binary64: real and imaginary part.
     */
    LYCAON_DTYPE_COMPLEX128 = 14,
    /**
     * No element type, or one that this version has no number for.
     */
    LYCAON_DTYPE_NONE = 255,
} lycaon_dtype;

/**
 * How contributions are combined.
 */
typedef enum lycaon_op {
    /**
     * Sum. Integers wrap; for bool it is logical or.
     */
    LYCAON_OP_SUM = 0,
    /**
     * Product. Integers wrap; for bool it is logical and.
     */
    LYCAON_OP_PROD = 1,
    /**
     * Minimum. NaN propagates; -0 is smaller than +0. Not for complex types.
     */
    LYCAON_OP_MIN = 2,
    /**
     * Maximum. NaN propagates; +0 is larger than -0. Not for complex types.
     */
    LYCAON_OP_MAX = 3,
    /**
     * Sum divided by the number of contributions. Floating-point and complex types only.
     */
    LYCAON_OP_AVG = 4,
    /**
     * Bitwise and. Integers and bool.
     */
    LYCAON_OP_BIT_AND = 5,
    /**
     * Bitwise or. Integers and bool.
     */
    LYCAON_OP_BIT_OR = 6,
    /**
     * Bitwise exclusive or. Integers and bool.
     */
    LYCAON_OP_BIT_XOR = 7,
    /**
     * Logical and: 1 if every contribution is non-zero, else 0. Integers and bool.
     */
    LYCAON_OP_LOGICAL_AND = 8,
    /**
     * Logical or: 1 if any contribution is non-zero, else 0. Integers and bool.
     */
    LYCAON_OP_LOGICAL_OR = 9,
    /**
     * No operator, or one that this version has no number for.
     */
    LYCAON_OP_NONE = 255,
} lycaon_op;

/**
 * How a collective is carried out.
 */
typedef enum lycaon_algorithm {
    /**
     * None: a message, a group of one, or an algorithm that this version has no number for.
     */
    LYCAON_ALGORITHM_NONE = 0,
    /**
     * Everybody sends to everybody (or to and from the root) at once: one step.
     */
    LYCAON_ALGORITHM_DIRECT = 1,
    /**
     * Reduce-scatter, then all-gather: two steps, the fewest possible bytes.
     */
    LYCAON_ALGORITHM_TWO_STEP = 2,
    /**
     * Neighbours in a ring; the fewest possible bytes, one link in use at a time.
     */
    LYCAON_ALGORITHM_RING = 3,
    /**
     * About log2(size) steps: recursive doubling, dissemination or a binomial tree.
     */
    LYCAON_ALGORITHM_LOGARITHMIC = 4,
    /**
     * Through memory that all ranks see.
     */
    LYCAON_ALGORITHM_ARENA = 5,
} lycaon_algorithm;

/**
 * How far an operation in the flight recorder has come.
 */
typedef enum lycaon_state {
    /**
     * It has not ended.
     */
    LYCAON_STATE_RUNNING = 0,
    /**
     * It has completed.
     */
    LYCAON_STATE_COMPLETED = 1,
    /**
     * It has failed.
     */
    LYCAON_STATE_FAILED = 2,
} lycaon_state;

/**
 * The type of RDMA queue pairs.
 */
typedef enum lycaon_queue_pairs {
    /**
     * Nothing is said: reliable ones where both ends have them.
     */
    LYCAON_QUEUE_PAIRS_NONE = 0,
    /**
     * RC: what is lost is sent again.
     */
    LYCAON_QUEUE_PAIRS_RELIABLE = 1,
    /**
     * UC: Apple's devices have only these.
     */
    LYCAON_QUEUE_PAIRS_UNRELIABLE = 2,
} lycaon_queue_pairs;

/**
 * What a rank must know to join its group. Values that are not set have their defaults; docs/
 * launching.md has the list. One thread at a time may use it.
 */
typedef struct lycaon_config lycaon_config;

/**
 * Where an all-gather function puts its answer, with lycaon_gathered_set().
 */
typedef struct lycaon_gathered lycaon_gathered;

/**
 * A group of ranks that compute together.
 *
 * Collectives complete in the order in which they were called, and every rank has to call the same
 * ones in the same order. Messages between two ranks are ordered per tag and do not wait for
 * collectives. A group may be used from many threads at a time; the order of collectives is then
 * the order of the calls. When an operation fails for another reason than a wrong argument, the
 * group is poisoned: every later call returns the first cause at once.
 */
typedef struct lycaon_group lycaon_group;

/**
 * A copy of the links of a group, in rank order. It does not change and may be read by any number
 * of threads.
 */
typedef struct lycaon_links lycaon_links;

/**
 * A table with the RDMA devices of each rank towards each other one, as many as there are cables.
 * One thread at a time may change it; while nobody does, any number may read it.
 */
typedef struct lycaon_rdma_devices lycaon_rdma_devices;

/**
 * A copy of the flight recorder of a group. It does not change and may be read by any number of
 * threads.
 */
typedef struct lycaon_records lycaon_records;

/**
 * An operation under way, as the functions that end in _async return it.
 *
 * It may be used from several threads at a time, except that nobody uses it during or after
 * lycaon_work_free(). The buffers of the operation must stay valid, and must not be touched (what
 * is only read must not be written), until it has ended.
 */
typedef struct lycaon_work lycaon_work;

/**
 * An all-gather of the program itself, in place of a rendezvous: every rank gives `mine`, and the
 * answer holds what each rank gave. It is called on the thread that starts the group, as often as
 * forming it needs, and returns 0; anything else is a failure, which lycaon_gathered_fail() can
 * explain.
 */
typedef int32_t (*lycaon_all_gather_fn)(void *user_data,
                                        int32_t rank,
                                        int32_t size,
                                        const uint8_t *mine,
                                        size_t length,
                                        struct lycaon_gathered *answer);

/**
 * One field of an error that only errors of its kind have.
 */
typedef struct lycaon_error_field {
    /**
     * Its name, for example "dead_rank".
     */
    const char *name;
    /**
     * Its value as text. Never NULL.
     */
    const char *text;
    /**
     * Its value if it is a number (ranks, counts, nanoseconds), else -1.
     */
    int64_t number;
} lycaon_error_field;

/**
 * Everything about an error. It belongs to the library; see lycaon_last_error().
 *
 * Later versions may add members at the end.
 */
typedef struct lycaon_error {
    /**
     * What the call returned.
     */
    enum lycaon_status status;
    /**
     * What state is left behind.
     */
    enum lycaon_family family;
    /**
     * The name of the status, for example "rank_died". Never NULL.
     */
    const char *kind;
    /**
     * What happened, where, and how to put it right. Never NULL.
     */
    const char *message;
    /**
     * Of an operation that failed: this rank, in the group of the operation. Else the rank that the
     * error is about, or -1.
     */
    int32_t rank;
    /**
     * The rank of the group that was waited for, or -1.
     */
    int32_t peer;
    /**
     * The operation that failed here; LYCAON_OPERATION_NONE if the call was refused, or is none.
     */
    enum lycaon_operation operation;
    /**
     * The link to the peer.
     */
    enum lycaon_link_kind link;
    /**
     * The number of the operation in its group (of a message: on its tag between its two ranks),
     * or -1.
     */
    int64_t sequence;
    /**
     * How long the operation had run, in nanoseconds.
     */
    uint64_t elapsed_ns;
    /**
     * What went wrong first, anywhere in the group: the same text on all ranks. NULL unless an
     * operation failed.
     */
    const char *cause;
    /**
     * The fields that only errors of this kind have; docs/c-abi.md lists them.
     */
    const struct lycaon_error_field *fields;
    /**
     * How many there are.
     */
    size_t field_count;
} lycaon_error;

/**
 * Asks whether the waits of a thread should end. Called on the waiting thread, at least every
 * 50 ms; it may call this library.
 */
typedef bool (*lycaon_interrupt_fn)(void *user_data);

/**
 * How far a group has come.
 */
typedef struct lycaon_progress {
    /**
     * Operations that this rank has begun.
     */
    uint64_t started;
    /**
     * Operations that have completed.
     */
    uint64_t completed;
    /**
     * Operations that have failed.
     */
    uint64_t failed;
    /**
     * Payload bytes that this process has sent over its links, for all groups.
     */
    uint64_t bytes_sent;
    /**
     * Payload bytes that this process has received over its links, for all groups.
     */
    uint64_t bytes_received;
} lycaon_progress;

/**
 * The link between this rank and another one of its group.
 */
typedef struct lycaon_link {
    /**
     * The other rank, in this group.
     */
    int32_t peer;
    /**
     * What joins the two.
     */
    enum lycaon_link_kind kind;
    /**
     * Where it leads, for example the two addresses of a TCP link. Never NULL.
     */
    const char *detail;
    /**
     * Payload bytes sent over it.
     */
    uint64_t bytes_sent;
    /**
     * Payload bytes received over it.
     */
    uint64_t bytes_received;
    /**
     * Messages sent over it.
     */
    uint64_t messages_sent;
    /**
     * Messages received over it.
     */
    uint64_t messages_received;
} lycaon_link;

/**
 * One operation in the flight recorder.
 */
typedef struct lycaon_record {
    /**
     * Its number in the group; of a message, its number on its tag between the two ranks.
     */
    uint64_t sequence;
    /**
     * What was called.
     */
    enum lycaon_operation operation;
    /**
     * The element type.
     */
    enum lycaon_dtype dtype;
    /**
     * The operator of a reduction, else LYCAON_OP_NONE.
     */
    enum lycaon_op op;
    /**
     * The root of a rooted operation, else -1.
     */
    int32_t root;
    /**
     * Elements of one rank's contribution, or of one block.
     */
    uint64_t count;
    /**
     * The other rank of a message, else -1.
     */
    int32_t peer;
    /**
     * The tag of a message, else -1.
     */
    int64_t tag;
    /**
     * How it was carried out.
     */
    enum lycaon_algorithm algorithm;
    /**
     * How far it has come.
     */
    enum lycaon_state state;
    /**
     * When it began, in nanoseconds since the group was formed.
     */
    uint64_t began_ns;
    /**
     * How long it took, or has taken so far, in nanoseconds.
     */
    uint64_t took_ns;
    /**
     * Why it failed; NULL unless it has.
     */
    const char *error;
    /**
     * All of it in one line. Never NULL.
     */
    const char *text;
} lycaon_record;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of this interface that the library has: LYCAON_ABI_VERSION of its own header.
 */
uint32_t lycaon_abi_version(void);

/**
 * The version of the library, for example "0.1.0".
 */
const char *lycaon_version(void);

/**
 * The version of the protocol between ranks; all ranks of a group have the same.
 */
uint32_t lycaon_protocol_version(void);

/**
 * Bytes of an element; 0 if `dtype` is none.
 */
size_t lycaon_dtype_size(lycaon_dtype number);

/**
 * The name of a status, for example "rank_died"; "unknown" if this version has no such number.
 */
const char *lycaon_status_name(uint32_t number);

/**
 * Makes a configuration of which nothing is set: without more, a group of one.
 */
struct lycaon_config *lycaon_config_new(void);

/**
 * Makes a configuration from the environment, of which single values can then be replaced.
 *
 * Requires:
 * `config` may be written.
 */
enum lycaon_status lycaon_config_from_env(struct lycaon_config **config);

/**
 * Makes a configuration from the settings in the environment (the LYCAON_ variables: token,
 * deadlines, links, …) without those that say which rank this is and where the ranks meet: the
 * program says that.
 *
 * Requires:
 * `config` may be written.
 */
enum lycaon_status lycaon_config_settings_from_env(struct lycaon_config **config);

/**
 * Frees a configuration; NULL is allowed.
 *
 * Requires:
 * `config` comes from this library, has not been freed, and nobody uses it any more.
 */
void lycaon_config_free(struct lycaon_config *config);

/**
 * Checks the values against one another, as lycaon_init_with() does.
 *
 * Requires:
 * `config` is a configuration that nobody changes during the call.
 */
enum lycaon_status lycaon_config_check(const struct lycaon_config *config);

/**
 * Sets the rank of this process.
 *
 * Requires:
 * `config` is a configuration that nobody else uses during the call.
 */
enum lycaon_status lycaon_config_set_rank(struct lycaon_config *config, int32_t rank);

/**
 * Sets the number of ranks.
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_size(struct lycaon_config *config, int32_t size);

/**
 * Sets where the ranks meet: `host:port` or `[v6]:port` where rank 0 listens, or `file:/path` on a
 * disk that all ranks see.
 *
 * Requires:
 * As for lycaon_config_set_rank(); `place` is a text that ends with a NUL.
 */
enum lycaon_status lycaon_config_set_rendezvous(struct lycaon_config *config, const char *place);

/**
 * Sets the secret that all ranks share: `length` bytes. It is needed if the rendezvous is not on
 * this machine.
 *
 * Requires:
 * As for lycaon_config_set_rank(); `token` points to `length` bytes.
 */
enum lycaon_status lycaon_config_set_token(struct lycaon_config *config,
                                           const uint8_t *token,
                                           size_t length);

/**
 * Sets a name that keeps jobs apart.
 *
 * Requires:
 * As for lycaon_config_set_rank(); `job` is a text that ends with a NUL.
 */
enum lycaon_status lycaon_config_set_job(struct lycaon_config *config, const char *job);

/**
 * Sets how long forming the group may take, in nanoseconds (60 s).
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_start_timeout_ns(struct lycaon_config *config,
                                                      uint64_t timeout_ns);

/**
 * Sets how long an operation waits while nothing moves, in nanoseconds (30 s).
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_timeout_ns(struct lycaon_config *config, uint64_t timeout_ns);

/**
 * Sets the kinds of link that may be used, in order of preference.
 *
 * Requires:
 * As for lycaon_config_set_rank(); `kinds` points to `count` kinds.
 */
enum lycaon_status lycaon_config_set_links(struct lycaon_config *config,
                                           const lycaon_link_kind *kinds,
                                           size_t count);

/**
 * Sets the number of TCP sockets of a link, 1 to 64.
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_rails(struct lycaon_config *config, int32_t rails);

/**
 * Sets a name for this host; ranks with different names share no memory.
 *
 * Requires:
 * As for lycaon_config_set_rank(); `id` is a text that ends with a NUL.
 */
enum lycaon_status lycaon_config_set_host_id(struct lycaon_config *config, const char *id);

/**
 * Sets the local addresses or the names of interfaces that data may use, separated by commas.
 *
 * Requires:
 * As for lycaon_config_set_rank(); `interfaces` is a text that ends with a NUL.
 */
enum lycaon_status lycaon_config_set_interfaces(struct lycaon_config *config,
                                                const char *interfaces);

/**
 * Fixes the algorithm of an operation, or of all operations (LYCAON_OPERATION_NONE).
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_algorithm(struct lycaon_config *config,
                                               lycaon_operation of,
                                               lycaon_algorithm by);

/**
 * Sets whether only algorithms that sum in rank order may be used.
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_rank_order(struct lycaon_config *config, bool only);

/**
 * Sets how long a wait polls before it sleeps in the kernel, in nanoseconds.
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_spin_ns(struct lycaon_config *config, uint64_t spin_ns);

/**
 * Sets the upper bound of the staging memory of a rank, in bytes (16 MiB).
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_staging(struct lycaon_config *config, size_t bytes);

/**
 * Sets how many operations the flight recorder of a group keeps (256).
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_recorder(struct lycaon_config *config, size_t operations);

/**
 * Sets the interval of the keep-alive on the control connection, in nanoseconds (5 s).
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_liveness_ns(struct lycaon_config *config,
                                                 uint64_t interval_ns);

/**
 * Puts what `rank` gave into the answer; the bytes are copied.
 *
 * Requires:
 * `answer` is what an all-gather function was called with, during that call; `bytes` points to
 * `length` bytes.
 */
enum lycaon_status lycaon_gathered_set(struct lycaon_gathered *answer,
                                       int32_t rank,
                                       const uint8_t *bytes,
                                       size_t length);

/**
 * Says why the all-gather failed; the text is copied.
 *
 * Requires:
 * As for lycaon_gathered_set(); `reason` is a text that ends with a NUL.
 */
enum lycaon_status lycaon_gathered_fail(struct lycaon_gathered *answer, const char *reason);

/**
 * Sets the program's own all-gather in place of a rendezvous.
 *
 * Requires:
 * As for lycaon_config_set_rank(). The function may be called with `user_data` by every
 * lycaon_init_with() of this configuration, on its thread.
 */
enum lycaon_status lycaon_config_set_all_gather(struct lycaon_config *config,
                                                lycaon_all_gather_fn function,
                                                void *user_data);

/**
 * The last error of the calling thread: that of the last call on this thread that did not
 * succeed. A call that succeeds leaves it as it is. NULL if there was none.
 *
 * The result and everything in it stays as it is until the next call on this thread that does not
 * succeed, or lycaon_clear_last_error(), or the end of the thread.
 */
const struct lycaon_error *lycaon_last_error(void);

/**
 * The text of the last error of the calling thread; "" if there was none. It stays as it is for
 * as long as what lycaon_last_error() returns.
 */
const char *lycaon_last_error_message(void);

/**
 * Forgets the last error of the calling thread.
 */
void lycaon_clear_last_error(void);

/**
 * Every rank gets the contributions of all ranks, in rank order. `input` holds `count` elements,
 * `output` `count` times the size of the group. In place, the contribution is already in its place
 * of `output`: `input` is that place, or NULL.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_all_gather(const struct lycaon_group *group,
                                     const void *input,
                                     void *output,
                                     size_t count,
                                     lycaon_dtype dtype);

/**
 * Starts lycaon_all_gather() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_all_gather(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_all_gather_async(const struct lycaon_group *group,
                                           const void *input,
                                           void *output,
                                           size_t count,
                                           lycaon_dtype dtype,
                                           struct lycaon_work **work);

/**
 * As lycaon_all_gather(), with counts that differ by rank: `counts` holds as many as the group has
 * ranks, the same on every rank. `input` holds `counts[rank]` elements, `output` the sum of all.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_all_gather_v(const struct lycaon_group *group,
                                       const void *input,
                                       void *output,
                                       const uint64_t *counts,
                                       lycaon_dtype dtype);

/**
 * Starts lycaon_all_gather_v() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_all_gather_v(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_all_gather_v_async(const struct lycaon_group *group,
                                             const void *input,
                                             void *output,
                                             const uint64_t *counts,
                                             lycaon_dtype dtype,
                                             struct lycaon_work **work);

/**
 * Every rank gets the root's `count` elements in `buffer`.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_broadcast(const struct lycaon_group *group,
                                    void *buffer,
                                    size_t count,
                                    lycaon_dtype dtype,
                                    int32_t root);

/**
 * Starts lycaon_broadcast() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_broadcast(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_broadcast_async(const struct lycaon_group *group,
                                          void *buffer,
                                          size_t count,
                                          lycaon_dtype dtype,
                                          int32_t root,
                                          struct lycaon_work **work);

/**
 * The root gets the contributions of all ranks, in rank order. `input` holds `count` elements,
 * `output` at the root `count` times the size of the group; elsewhere it is not looked at. In place
 * at the root, its contribution is already in its place of `output`: `input` is that place, or NULL.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_gather(const struct lycaon_group *group,
                                 const void *input,
                                 void *output,
                                 size_t count,
                                 lycaon_dtype dtype,
                                 int32_t root);

/**
 * Starts lycaon_gather() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_gather(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_gather_async(const struct lycaon_group *group,
                                       const void *input,
                                       void *output,
                                       size_t count,
                                       lycaon_dtype dtype,
                                       int32_t root,
                                       struct lycaon_work **work);

/**
 * As lycaon_gather(), with contributions that differ by rank: `count` elements are given here, and at
 * the root `counts` holds as many counts as the group has ranks; elsewhere it is not looked at.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_gather_v(const struct lycaon_group *group,
                                   const void *input,
                                   void *output,
                                   size_t count,
                                   const uint64_t *counts,
                                   lycaon_dtype dtype,
                                   int32_t root);

/**
 * Starts lycaon_gather_v() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_gather_v(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_gather_v_async(const struct lycaon_group *group,
                                         const void *input,
                                         void *output,
                                         size_t count,
                                         const uint64_t *counts,
                                         lycaon_dtype dtype,
                                         int32_t root,
                                         struct lycaon_work **work);

/**
 * Rank i gets block i of the root's `input`, which holds `count` elements for each rank and is not
 * looked at elsewhere. `output` holds `count` elements. At the root `output` NULL, or the root's own
 * block of `input`, leaves that block where it is.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_scatter(const struct lycaon_group *group,
                                  const void *input,
                                  void *output,
                                  size_t count,
                                  lycaon_dtype dtype,
                                  int32_t root);

/**
 * Starts lycaon_scatter() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_scatter(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_scatter_async(const struct lycaon_group *group,
                                        const void *input,
                                        void *output,
                                        size_t count,
                                        lycaon_dtype dtype,
                                        int32_t root,
                                        struct lycaon_work **work);

/**
 * As lycaon_scatter(), with blocks that differ by rank: `count` elements are received here, and at the
 * root `counts` holds as many counts as the group has ranks; elsewhere it is not looked at.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_scatter_v(const struct lycaon_group *group,
                                    const void *input,
                                    void *output,
                                    size_t count,
                                    const uint64_t *counts,
                                    lycaon_dtype dtype,
                                    int32_t root);

/**
 * Starts lycaon_scatter_v() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_scatter_v(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_scatter_v_async(const struct lycaon_group *group,
                                          const void *input,
                                          void *output,
                                          size_t count,
                                          const uint64_t *counts,
                                          lycaon_dtype dtype,
                                          int32_t root,
                                          struct lycaon_work **work);

/**
 * Rank i gets block i of every rank's `input`, in rank order. Both buffers hold `count` elements for
 * each rank; `input` NULL or the same as `output` is in place (through a copy).
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_all_to_all(const struct lycaon_group *group,
                                     const void *input,
                                     void *output,
                                     size_t count,
                                     lycaon_dtype dtype);

/**
 * Starts lycaon_all_to_all() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_all_to_all(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_all_to_all_async(const struct lycaon_group *group,
                                           const void *input,
                                           void *output,
                                           size_t count,
                                           lycaon_dtype dtype,
                                           struct lycaon_work **work);

/**
 * As lycaon_all_to_all(), with counts of its own for each pair: `send_counts` and `recv_counts` hold as
 * many as the group has ranks, and the blocks stand in `input` and `output` without gaps.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_all_to_all_v(const struct lycaon_group *group,
                                       const void *input,
                                       const uint64_t *send_counts,
                                       void *output,
                                       const uint64_t *recv_counts,
                                       lycaon_dtype dtype);

/**
 * Starts lycaon_all_to_all_v() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_all_to_all_v(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_all_to_all_v_async(const struct lycaon_group *group,
                                             const void *input,
                                             const uint64_t *send_counts,
                                             void *output,
                                             const uint64_t *recv_counts,
                                             lycaon_dtype dtype,
                                             struct lycaon_work **work);

/**
 * Starts the group that the environment describes: `lycaon launch`, torchrun, Open MPI, MPICH,
 * Slurm and MLX's variables are understood. Without any of them it is a group of one, in which
 * everything works.
 *
 * Requires:
 * `group` may be written.
 */
enum lycaon_status lycaon_init(struct lycaon_group **group);

/**
 * Starts the group that a configuration describes. The configuration can be freed afterwards.
 *
 * Requires:
 * `config` is a configuration that nobody changes during the call; `group` may be written.
 */
enum lycaon_status lycaon_init_with(const struct lycaon_config *config,
                                    struct lycaon_group **group);

/**
 * Makes a group whose ranks are threads of this process, for tests and for trying things out:
 * `groups` gets `size` groups in rank order, each for a thread of its own.
 *
 * Requires:
 * `groups` may be written with `size` pointers.
 */
enum lycaon_status lycaon_in_process(int32_t size, struct lycaon_group **groups);

/**
 * Closes the group, if it has not been closed, and frees the handle; NULL is allowed. Operations
 * under way fail. Never hangs.
 *
 * Requires:
 * `group` comes from this library, has not been freed, and nobody uses it any more.
 */
void lycaon_group_free(struct lycaon_group *group);

/**
 * Closes the group: later calls fail, operations under way fail, and if it was the last group of
 * the job its links are closed. May be called more than once.
 *
 * Requires:
 * `group` is a group that has not been freed.
 */
enum lycaon_status lycaon_group_close(const struct lycaon_group *group);

/**
 * This rank, from 0 to the size less 1; -1 if `group` is NULL.
 *
 * Requires:
 * As for lycaon_group_close().
 */
int32_t lycaon_group_rank(const struct lycaon_group *group);

/**
 * The number of ranks; -1 if `group` is NULL.
 *
 * Requires:
 * As for lycaon_group_close().
 */
int32_t lycaon_group_size(const struct lycaon_group *group);

/**
 * For each rank of this group, its rank in the job: `members` gets as many as the group has.
 *
 * Requires:
 * As for lycaon_group_close(); `members` may be written with that many numbers. `capacity` is how
 * many it holds; a smaller one is an error.
 */
enum lycaon_status lycaon_group_members(const struct lycaon_group *group,
                                        int32_t *members,
                                        size_t capacity);

/**
 * How long an operation waits while nothing moves before it fails, in nanoseconds; 0 if `group` is
 * NULL.
 *
 * Requires:
 * As for lycaon_group_close().
 */
uint64_t lycaon_group_timeout_ns(const struct lycaon_group *group);

/**
 * Sets how long operations called from now on wait while nothing moves before they fail.
 *
 * Requires:
 * As for lycaon_group_close().
 */
enum lycaon_status lycaon_group_set_timeout_ns(const struct lycaon_group *group,
                                               uint64_t timeout_ns);

/**
 * The algorithm that an operation on `bytes` bytes (of one rank's contribution, or of one block for
 * reduce_scatter, scatter and all_to_all) would take.
 *
 * Requires:
 * As for lycaon_group_close(); `algorithm` may be written.
 */
enum lycaon_status lycaon_group_algorithm(const struct lycaon_group *group,
                                          lycaon_operation number,
                                          uint64_t bytes,
                                          lycaon_algorithm *algorithm);

/**
 * LYCAON_STATUS_OK if the group can be used; else the first cause of its failure, as every
 * operation would return it.
 *
 * Requires:
 * As for lycaon_group_close().
 */
enum lycaon_status lycaon_group_failure(const struct lycaon_group *group);

/**
 * Forms a group of all ranks that give the same `color`, ordered by `key` and then by rank. A
 * collective: every rank of `group` calls it. `sub_group` gets NULL where the color is
 * LYCAON_COLOR_NONE. The new group has its own order and its own failures, and must be freed.
 *
 * Requires:
 * As for lycaon_group_close(); `sub_group` may be written.
 */
enum lycaon_status lycaon_group_split(const struct lycaon_group *group,
                                      int32_t color,
                                      int64_t key,
                                      struct lycaon_group **sub_group);

/**
 * Sets what the waits of the calling thread ask whether they should end, in place of what was set
 * before; NULL sets nothing. A wait that ends so fails with LYCAON_STATUS_INTERRUPTED or
 * LYCAON_STATUS_START_INTERRUPTED.
 *
 * `user_data` is given to each call and must be valid until something else is set or the thread
 * ends.
 */
void lycaon_set_interrupt(lycaon_interrupt_fn check, void *user_data);

/**
 * Sends `count` elements to rank `to`. It may return before they have arrived. Messages of one tag
 * between two ranks arrive in order.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_send(const struct lycaon_group *group,
                               const void *data,
                               size_t count,
                               lycaon_dtype dtype,
                               int32_t to,
                               uint32_t tag);

/**
 * Starts lycaon_send() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_send(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_send_async(const struct lycaon_group *group,
                                     const void *data,
                                     size_t count,
                                     lycaon_dtype dtype,
                                     int32_t to,
                                     uint32_t tag,
                                     struct lycaon_work **work);

/**
 * Receives `count` elements from rank `from`, which sends as many of the same type.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_recv(const struct lycaon_group *group,
                               void *data,
                               size_t count,
                               lycaon_dtype dtype,
                               int32_t from,
                               uint32_t tag);

/**
 * Starts lycaon_recv() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_recv(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_recv_async(const struct lycaon_group *group,
                                     void *data,
                                     size_t count,
                                     lycaon_dtype dtype,
                                     int32_t from,
                                     uint32_t tag,
                                     struct lycaon_work **work);

/**
 * Sends `send_count` elements to rank `to` and receives `recv_count` from rank `from` at the same
 * time. The other sides may do the same, or send and receive.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_send_recv(const struct lycaon_group *group,
                                    const void *data,
                                    size_t send_count,
                                    int32_t to,
                                    void *into,
                                    size_t recv_count,
                                    int32_t from,
                                    lycaon_dtype dtype,
                                    uint32_t tag);

/**
 * Starts lycaon_send_recv() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_send_recv(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_send_recv_async(const struct lycaon_group *group,
                                          const void *data,
                                          size_t send_count,
                                          int32_t to,
                                          void *into,
                                          size_t recv_count,
                                          int32_t from,
                                          lycaon_dtype dtype,
                                          uint32_t tag,
                                          struct lycaon_work **work);

/**
 * The number of RDMA devices that the system lists; 0 where it has no library for them. Whether their
 * ports are up turns out at start.
 */
size_t lycaon_rdma_device_count(void);

/**
 * Makes a table for so many ranks in which no device is named.
 *
 * Requires:
 * `devices` may be written.
 */
enum lycaon_status lycaon_rdma_devices_new(int32_t ranks, struct lycaon_rdma_devices **devices);

/**
 * Reads a table from a JSON file: the cell of row i and column j is null, the name of the device
 * that rank i uses towards rank j, or a list of names. JACCL_IBV_DEVICES names such a file.
 *
 * Requires:
 * `path` is a text that ends with a NUL; `devices` may be written.
 */
enum lycaon_status lycaon_rdma_devices_read(const char *path, struct lycaon_rdma_devices **devices);

/**
 * Frees a table; NULL is allowed.
 *
 * Requires:
 * `devices` comes from this library, has not been freed, and nobody uses it any more.
 */
void lycaon_rdma_devices_free(struct lycaon_rdma_devices *devices);

/**
 * Adds a device that rank `from` uses towards rank `to`. Devices of both directions belong
 * together by their order.
 *
 * Requires:
 * `devices` is a table that nobody else uses during the call; `name` is a text that ends with a NUL.
 */
enum lycaon_status lycaon_rdma_devices_add(struct lycaon_rdma_devices *devices,
                                           int32_t from,
                                           int32_t to,
                                           const char *name);

/**
 * How many ranks a table is for.
 *
 * Requires:
 * `devices` is a table that nobody changes during the call.
 */
int32_t lycaon_rdma_devices_ranks(const struct lycaon_rdma_devices *devices);

/**
 * How many devices rank `from` uses towards rank `to`.
 *
 * Requires:
 * As for lycaon_rdma_devices_ranks().
 */
size_t lycaon_rdma_devices_count(const struct lycaon_rdma_devices *devices,
                                 int32_t from,
                                 int32_t to);

/**
 * The name of one of them, valid until the table is changed or freed; NULL if there are not so
 * many.
 *
 * Requires:
 * As for lycaon_rdma_devices_ranks().
 */
const char *lycaon_rdma_devices_name(const struct lycaon_rdma_devices *devices,
                                     int32_t from,
                                     int32_t to,
                                     size_t index);

/**
 * Sets the RDMA devices of each rank towards each other one; the table is copied. Without this the
 * devices are found.
 *
 * Requires:
 * As for lycaon_config_set_rank(); `devices` is a table that nobody changes during the call.
 */
enum lycaon_status lycaon_config_set_rdma_devices(struct lycaon_config *config,
                                                  const struct lycaon_rdma_devices *devices);

/**
 * Sets the type of RDMA queue pairs.
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_rdma_queue_pairs(struct lycaon_config *config,
                                                      lycaon_queue_pairs kind);

/**
 * Sets which of its identifiers (GIDs) an RDMA device uses. Without this, one that fits the peer's.
 *
 * Requires:
 * As for lycaon_config_set_rank().
 */
enum lycaon_status lycaon_config_set_rdma_gid_index(struct lycaon_config *config, int32_t index);

/**
 * Every rank gets the reduction of the contributions of all ranks. `input` and `output` hold `count`
 * elements; `input` NULL or the same as `output` is in place.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_all_reduce(const struct lycaon_group *group,
                                     const void *input,
                                     void *output,
                                     size_t count,
                                     lycaon_dtype dtype,
                                     lycaon_op op);

/**
 * Starts lycaon_all_reduce() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_all_reduce(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_all_reduce_async(const struct lycaon_group *group,
                                           const void *input,
                                           void *output,
                                           size_t count,
                                           lycaon_dtype dtype,
                                           lycaon_op op,
                                           struct lycaon_work **work);

/**
 * Rank i gets block i of the reduction of all contributions. `output` holds `count` elements,
 * `input` `count` times the size of the group. In place, `output` is the block of this rank in
 * `input`, whose other blocks are left undefined.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_reduce_scatter(const struct lycaon_group *group,
                                         const void *input,
                                         void *output,
                                         size_t count,
                                         lycaon_dtype dtype,
                                         lycaon_op op);

/**
 * Starts lycaon_reduce_scatter() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_reduce_scatter(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_reduce_scatter_async(const struct lycaon_group *group,
                                               const void *input,
                                               void *output,
                                               size_t count,
                                               lycaon_dtype dtype,
                                               lycaon_op op,
                                               struct lycaon_work **work);

/**
 * As lycaon_reduce_scatter(), with blocks that differ by rank: `counts` holds as many as the group
 * has ranks, the same on every rank. `output` holds `counts[rank]` elements, `input` the sum of all.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_reduce_scatter_v(const struct lycaon_group *group,
                                           const void *input,
                                           void *output,
                                           const uint64_t *counts,
                                           lycaon_dtype dtype,
                                           lycaon_op op);

/**
 * Starts lycaon_reduce_scatter_v() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_reduce_scatter_v(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_reduce_scatter_v_async(const struct lycaon_group *group,
                                                 const void *input,
                                                 void *output,
                                                 const uint64_t *counts,
                                                 lycaon_dtype dtype,
                                                 lycaon_op op,
                                                 struct lycaon_work **work);

/**
 * The root gets the reduction of all contributions of `count` elements. At the root `input` NULL or
 * the same as `output` is in place; elsewhere `output` is not looked at.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_reduce(const struct lycaon_group *group,
                                 const void *input,
                                 void *output,
                                 size_t count,
                                 lycaon_dtype dtype,
                                 lycaon_op op,
                                 int32_t root);

/**
 * Starts lycaon_reduce() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_reduce(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_reduce_async(const struct lycaon_group *group,
                                       const void *input,
                                       void *output,
                                       size_t count,
                                       lycaon_dtype dtype,
                                       lycaon_op op,
                                       int32_t root,
                                       struct lycaon_work **work);

/**
 * Rank i gets the reduction of the contributions of ranks 0 to i. `input` and `output` hold `count`
 * elements; `input` NULL or the same as `output` is in place.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_scan(const struct lycaon_group *group,
                               const void *input,
                               void *output,
                               size_t count,
                               lycaon_dtype dtype,
                               lycaon_op op);

/**
 * Starts lycaon_scan() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_scan(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_scan_async(const struct lycaon_group *group,
                                     const void *input,
                                     void *output,
                                     size_t count,
                                     lycaon_dtype dtype,
                                     lycaon_op op,
                                     struct lycaon_work **work);

/**
 * Nobody returns before everybody has called.
 *
 * Requires:
 * `group` is a group that has not been freed; the buffers are as long as said, valid during the
 * call, and what is written is touched by nobody else.
 */
enum lycaon_status lycaon_barrier(const struct lycaon_group *group);

/**
 * Starts lycaon_barrier() in the background. `work` gets a handle that must be freed.
 *
 * Requires:
 * As for lycaon_barrier(), but the buffers stay valid and untouched until the operation has ended;
 * lists of counts are copied. `work` may be written.
 */
enum lycaon_status lycaon_barrier_async(const struct lycaon_group *group,
                                        struct lycaon_work **work);

/**
 * Reads the counters of a group. Never waits; any thread at any time.
 *
 * Requires:
 * `group` is a group that has not been freed; `progress` may be written.
 */
enum lycaon_status lycaon_group_progress(const struct lycaon_group *group,
                                         struct lycaon_progress *progress);

/**
 * The links of a group to its other ranks, with their counters. The result must be freed.
 *
 * Requires:
 * As for lycaon_group_progress(); `links` may be written.
 */
enum lycaon_status lycaon_group_links(const struct lycaon_group *group,
                                      struct lycaon_links **links);

/**
 * How many links these are.
 *
 * Requires:
 * `links` comes from lycaon_group_links() and has not been freed.
 */
size_t lycaon_links_count(const struct lycaon_links *links);

/**
 * One of them, valid as long as `links`; NULL if there are not so many.
 *
 * Requires:
 * As for lycaon_links_count().
 */
const struct lycaon_link *lycaon_links_at(const struct lycaon_links *links, size_t index);

/**
 * Frees what lycaon_group_links() returned; NULL is allowed.
 *
 * Requires:
 * As for lycaon_links_count(), and nobody uses it any more.
 */
void lycaon_links_free(struct lycaon_links *links);

/**
 * The last operations of a group, oldest first. Never waits; any thread at any time, also after the
 * group has failed. The result must be freed.
 *
 * Requires:
 * As for lycaon_group_progress(); `records` may be written.
 */
enum lycaon_status lycaon_group_flight_recorder(const struct lycaon_group *group,
                                                struct lycaon_records **records);

/**
 * How many operations these are.
 *
 * Requires:
 * `records` comes from lycaon_group_flight_recorder() and has not been freed.
 */
size_t lycaon_records_count(const struct lycaon_records *records);

/**
 * One of them, valid as long as `records`; NULL if there are not so many.
 *
 * Requires:
 * As for lycaon_records_count().
 */
const struct lycaon_record *lycaon_records_at(const struct lycaon_records *records, size_t index);

/**
 * Frees what lycaon_group_flight_recorder() returned; NULL is allowed.
 *
 * Requires:
 * As for lycaon_records_count(), and nobody uses it any more.
 */
void lycaon_records_free(struct lycaon_records *records);

/**
 * Waits until the operation has ended, and returns how. The operation's own deadline bounds the
 * wait. May be called more than once.
 *
 * If the wait was interrupted (LYCAON_STATUS_INTERRUPTED while lycaon_work_test() says that it has
 * not ended), the operation goes on.
 *
 * Requires:
 * `work` comes from a function that ends in _async and has not been freed.
 */
enum lycaon_status lycaon_work_wait(const struct lycaon_work *work);

/**
 * Waits at most `limit_ns` nanoseconds. `done` gets whether the operation has ended; if it has,
 * the call returns how it ended, else LYCAON_STATUS_OK, and the operation goes on.
 *
 * Requires:
 * As for lycaon_work_wait(); `done` may be written.
 */
enum lycaon_status lycaon_work_wait_for(const struct lycaon_work *work,
                                        uint64_t limit_ns,
                                        bool *done);

/**
 * `done` gets whether the operation has ended; if it has, the call returns how. Never waits.
 *
 * Requires:
 * As for lycaon_work_wait_for().
 */
enum lycaon_status lycaon_work_test(const struct lycaon_work *work, bool *done);

/**
 * Frees the handle; NULL is allowed. If the operation has not ended, this waits until it has (its
 * deadline bounds that), so that its buffers can be freed afterwards.
 *
 * Requires:
 * As for lycaon_work_wait(), and nobody uses `work` any more.
 */
void lycaon_work_free(struct lycaon_work *work);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LYCAON_LYCAON_H */
