/* Whatever a caller can do wrong is an error that says so, and changes nothing. */
#include <pthread.h>

#include "check.h"

static void says(lycaon_status status, const char *part)
{
    const lycaon_error *error = lycaon_last_error();
    CHECK(error != NULL && error->status == status);
    if (strstr(error->message, part) == NULL) {
        fprintf(stderr, "\"%s\" does not say \"%s\"\n", error->message, part);
        exit(1);
    }
}

static void null_pointers(lycaon_group *group)
{
    float data[2] = {1, 2};
    bool done = false;
    EXPECT(LYCAON_STATUS_NULL_POINTER, lycaon_init(NULL));
    says(LYCAON_STATUS_NULL_POINTER, "group must not be NULL");
    EXPECT(LYCAON_STATUS_NULL_POINTER, lycaon_barrier(NULL));
    EXPECT(LYCAON_STATUS_NULL_POINTER,
           lycaon_all_reduce(group, data, NULL, 2, LYCAON_DTYPE_F32, LYCAON_OP_SUM));
    says(LYCAON_STATUS_NULL_POINTER, "output");
    EXPECT(LYCAON_STATUS_NULL_POINTER,
           lycaon_all_reduce_async(group, NULL, data, 2, LYCAON_DTYPE_F32, LYCAON_OP_SUM, NULL));
    EXPECT(LYCAON_STATUS_NULL_POINTER, lycaon_work_wait(NULL));
    EXPECT(LYCAON_STATUS_NULL_POINTER, lycaon_work_test(NULL, &done));
    EXPECT(LYCAON_STATUS_NULL_POINTER, lycaon_config_set_rank(NULL, 0));
    EXPECT(LYCAON_STATUS_NULL_POINTER, lycaon_group_split(group, 0, 0, NULL));
    EXPECT(LYCAON_STATUS_NULL_POINTER, lycaon_group_progress(group, NULL));
    CHECK(lycaon_group_rank(NULL) == -1 && lycaon_group_size(NULL) == -1);
    CHECK(data[0] == 1 && data[1] == 2);
    /* Freeing nothing is nothing. */
    lycaon_group_free(NULL);
    lycaon_work_free(NULL);
    lycaon_config_free(NULL);
    lycaon_links_free(NULL);
    lycaon_records_free(NULL);
}

static void numbers(lycaon_group *group)
{
    int32_t data[4] = {1, 2, 3, 4};
    EXPECT(LYCAON_STATUS_UNKNOWN_DTYPE,
           lycaon_all_reduce(group, NULL, data, 4, (lycaon_dtype)99, LYCAON_OP_SUM));
    says(LYCAON_STATUS_UNKNOWN_DTYPE, "99");
    EXPECT(LYCAON_STATUS_UNKNOWN_DTYPE,
           lycaon_all_reduce(group, NULL, data, 4, LYCAON_DTYPE_NONE, LYCAON_OP_SUM));
    EXPECT(LYCAON_STATUS_UNKNOWN_OP,
           lycaon_all_reduce(group, NULL, data, 4, LYCAON_DTYPE_I32, (lycaon_op)77));
    EXPECT(LYCAON_STATUS_UNSUPPORTED,
           lycaon_all_reduce(group, NULL, data, 2, LYCAON_DTYPE_F32, LYCAON_OP_BIT_XOR));
    EXPECT(LYCAON_STATUS_NO_SUCH_RANK, lycaon_broadcast(group, data, 4, LYCAON_DTYPE_I32, 2));
    EXPECT(LYCAON_STATUS_NO_SUCH_RANK, lycaon_broadcast(group, data, 4, LYCAON_DTYPE_I32, -1));
    says(LYCAON_STATUS_NO_SUCH_RANK, "-1");
    EXPECT(LYCAON_STATUS_SELF_MESSAGE,
           lycaon_send(group, data, 4, LYCAON_DTYPE_I32, lycaon_group_rank(group), 0));
    EXPECT(LYCAON_STATUS_TOO_LARGE,
           lycaon_all_reduce(group, NULL, data, SIZE_MAX / 2, LYCAON_DTYPE_I32, LYCAON_OP_SUM));
    EXPECT(LYCAON_STATUS_OVERLAP,
           lycaon_all_reduce(group, data, data + 1, 3, LYCAON_DTYPE_I32, LYCAON_OP_SUM));
    lycaon_group *sub = NULL;
    EXPECT(LYCAON_STATUS_OUT_OF_RANGE, lycaon_group_split(group, -2, 0, &sub));
    CHECK(sub == NULL);
    lycaon_algorithm algorithm = LYCAON_ALGORITHM_NONE;
    EXPECT(LYCAON_STATUS_UNKNOWN_NUMBER,
           lycaon_group_algorithm(group, (lycaon_operation)50, 8, &algorithm));
    OK(lycaon_group_algorithm(group, LYCAON_OPERATION_ALL_REDUCE, 8, &algorithm));
    CHECK(algorithm != LYCAON_ALGORITHM_NONE);
    for (int at = 0; at < 4; at++) {
        CHECK(data[at] == at + 1);
    }
    CHECK(lycaon_dtype_size(LYCAON_DTYPE_COMPLEX128) == 16);
    CHECK(lycaon_dtype_size((lycaon_dtype)99) == 0);
    CHECK(strcmp(lycaon_status_name(LYCAON_STATUS_RANK_DIED), "rank_died") == 0);
    CHECK(strcmp(lycaon_status_name(4711), "unknown") == 0);
    /* None of this has hurt the group. */
    OK(lycaon_group_failure(group));
}

static int32_t refuses(void *user_data, int32_t rank, int32_t size, const uint8_t *mine,
                       size_t length, lycaon_gathered *answer)
{
    CHECK(size == 2 && rank == 1 && mine != NULL && length > 0);
    EXPECT(LYCAON_STATUS_NO_SUCH_RANK, lycaon_gathered_set(answer, 2, mine, length));
    OK(lycaon_gathered_fail(answer, "no way to the others"));
    ++*(int *)user_data;
    return 1;
}

static void configurations(void)
{
    lycaon_config *config = lycaon_config_new();
    CHECK(config != NULL);
    EXPECT(LYCAON_STATUS_OUT_OF_RANGE, lycaon_config_set_rank(config, -1));
    OK(lycaon_config_set_rank(config, 3));
    OK(lycaon_config_set_size(config, 2));
    EXPECT(LYCAON_STATUS_CONFLICT, lycaon_config_check(config));
    says(LYCAON_STATUS_CONFLICT, "rank=3 and size=2");
    lycaon_group *group = NULL;
    EXPECT(LYCAON_STATUS_CONFLICT, lycaon_init_with(config, &group));
    CHECK(group == NULL);
    OK(lycaon_config_set_rank(config, 1));
    EXPECT(LYCAON_STATUS_VALUE, lycaon_config_set_rendezvous(config, "nowhere"));
    EXPECT(LYCAON_STATUS_NOT_TEXT, lycaon_config_set_job(config, "\xff\xfe"));
    const lycaon_link_kind kinds[] = {LYCAON_LINK_KIND_TCP};
    OK(lycaon_config_set_links(config, kinds, 1));
    const lycaon_link_kind none[] = {LYCAON_LINK_KIND_OTHER};
    EXPECT(LYCAON_STATUS_UNKNOWN_NUMBER, lycaon_config_set_links(config, none, 1));
    OK(lycaon_config_set_algorithm(config, LYCAON_OPERATION_NONE, LYCAON_ALGORITHM_RING));
    EXPECT(LYCAON_STATUS_UNKNOWN_NUMBER,
           lycaon_config_set_algorithm(config, LYCAON_OPERATION_NONE, LYCAON_ALGORITHM_NONE));
    int calls = 0;
    OK(lycaon_config_set_all_gather(config, refuses, &calls));
    EXPECT(LYCAON_STATUS_SIDE_CHANNEL, lycaon_init_with(config, &group));
    says(LYCAON_STATUS_SIDE_CHANNEL, "no way to the others");
    CHECK(calls == 1 && group == NULL);
    CHECK(lycaon_last_error()->family == LYCAON_FAMILY_START);
    lycaon_config_free(config);
}

typedef struct {
    lycaon_group *group;
    int32_t rank;
} place;

/* Two ranks that call different things both hear of it, with both calls. */
static void *differs(void *argument)
{
    const place *mine = (const place *)argument;
    int64_t data[2] = {0, 0};
    lycaon_status status =
        mine->rank == 0 ? lycaon_all_reduce(mine->group, NULL, data, 2, LYCAON_DTYPE_I64, LYCAON_OP_SUM)
                        : lycaon_all_reduce(mine->group, NULL, data, 1, LYCAON_DTYPE_I64, LYCAON_OP_SUM);
    EXPECT(LYCAON_STATUS_MISMATCH, status);
    says(LYCAON_STATUS_MISMATCH, "i64");
    const lycaon_error *error = lycaon_last_error();
    CHECK(error->rank == mine->rank && error->operation == LYCAON_OPERATION_ALL_REDUCE);
    CHECK(error->sequence == 0 && error->cause != NULL);
    int found = 0;
    for (size_t at = 0; at < error->field_count; at++) {
        found += strcmp(error->fields[at].name, "second_call") == 0;
    }
    CHECK(found == 1);
    /* From now on the first cause at once. */
    EXPECT(LYCAON_STATUS_MISMATCH, lycaon_barrier(mine->group));
    EXPECT(LYCAON_STATUS_MISMATCH, lycaon_group_failure(mine->group));
    return NULL;
}

static void mismatch(void)
{
    lycaon_group *groups[2];
    pthread_t threads[2];
    place places[2];
    OK(lycaon_in_process(2, groups));
    for (int32_t rank = 0; rank < 2; rank++) {
        places[rank].group = groups[rank];
        places[rank].rank = rank;
        CHECK(pthread_create(&threads[rank], NULL, differs, &places[rank]) == 0);
    }
    for (int rank = 0; rank < 2; rank++) {
        CHECK(pthread_join(threads[rank], NULL) == 0);
        lycaon_group_free(groups[rank]);
    }
}

static bool at_once(void *user_data)
{
    ++*(int *)user_data;
    return true;
}

static void waits_that_end(void)
{
    lycaon_group *groups[2];
    int32_t data = 7;
    OK(lycaon_in_process(2, groups));
    OK(lycaon_group_set_timeout_ns(groups[0], 100u * 1000 * 1000));
    CHECK(lycaon_group_timeout_ns(groups[0]) == 100u * 1000 * 1000);
    EXPECT(LYCAON_STATUS_DEADLINE, lycaon_recv(groups[0], &data, 1, LYCAON_DTYPE_I32, 1, 0));
    const lycaon_error *error = lycaon_last_error();
    CHECK(error->peer == 1 && error->elapsed_ns >= 100u * 1000 * 1000);
    CHECK(data == 7);
    lycaon_group_free(groups[0]);
    lycaon_group_free(groups[1]);

    /* A wait of a handle that is given up leaves the operation alone; its end frees it. */
    OK(lycaon_in_process(2, groups));
    lycaon_work *work = NULL;
    bool done = true;
    OK(lycaon_recv_async(groups[0], &data, 1, LYCAON_DTYPE_I32, 1, 0, &work));
    OK(lycaon_work_wait_for(work, 1000 * 1000, &done));
    CHECK(!done);
    int asked = 0;
    lycaon_set_interrupt(at_once, &asked);
    EXPECT(LYCAON_STATUS_INTERRUPTED, lycaon_work_wait(work));
    lycaon_set_interrupt(NULL, NULL);
    CHECK(asked > 0);
    OK(lycaon_group_failure(groups[0]));
    const int32_t sent = 11;
    OK(lycaon_send(groups[1], &sent, 1, LYCAON_DTYPE_I32, 0, 0));
    OK(lycaon_work_wait(work));
    OK(lycaon_work_wait(work));
    CHECK(data == 11);
    lycaon_work_free(work);
    lycaon_group_free(groups[0]);
    lycaon_group_free(groups[1]);
}

static void *has_none(void *argument)
{
    CHECK(lycaon_last_error() == NULL && strcmp(lycaon_last_error_message(), "") == 0);
    return argument;
}

int main(void)
{
    CHECK(lycaon_last_error() == NULL);
    lycaon_group *groups[2];
    OK(lycaon_in_process(2, groups));
    null_pointers(groups[0]);
    numbers(groups[0]);
    lycaon_group_free(groups[0]);
    lycaon_group_free(groups[1]);
    EXPECT(LYCAON_STATUS_OUT_OF_RANGE, lycaon_in_process(0, groups));
    configurations();
    mismatch();
    waits_that_end();
    /* Errors belong to their thread. */
    CHECK(lycaon_last_error() != NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, has_none, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    lycaon_clear_last_error();
    CHECK(lycaon_last_error() == NULL);
    puts("errors: ok");
    return 0;
}
