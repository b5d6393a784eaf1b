/* Every operation, blocking and in the background, in and out of place, on one rank of a group. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "check.h"

#define I32 LYCAON_DTYPE_I32
#define SUM LYCAON_OP_SUM

static inline int64_t sum_at(int32_t ranks, size_t at)
{
    int64_t sum = 0;
    for (int32_t rank = 0; rank < ranks; rank++) {
        sum += value_of(rank, at);
    }
    return sum;
}

static inline void reductions(lycaon_group *group, size_t count)
{
    const int32_t rank = lycaon_group_rank(group), size = lycaon_group_size(group);
    const size_t whole = count * (size_t)size;
    int32_t *in = room(whole), *out = room(whole);
    lycaon_work *work = NULL;

    for (int background = 0; background < 2; background++) {
        for (int in_place = 0; in_place < 3; in_place++) {
            const int32_t *from = in_place == 0 ? in : in_place == 1 ? out : NULL;
            fill(in, count, rank);
            fill(out, count, rank);
            if (background) {
                OK(lycaon_all_reduce_async(group, from, out, count, I32, SUM, &work));
                finish(work);
            } else {
                OK(lycaon_all_reduce(group, from, out, count, I32, SUM));
            }
            for (size_t at = 0; at < count; at++) {
                CHECK(out[at] == sum_at(size, at));
            }
            fill(in, count, rank);
            fill(out, count, rank);
            if (background) {
                OK(lycaon_scan_async(group, from, out, count, I32, SUM, &work));
                finish(work);
            } else {
                OK(lycaon_scan(group, from, out, count, I32, SUM));
            }
            for (size_t at = 0; at < count; at++) {
                CHECK(out[at] == sum_at(rank + 1, at));
            }
            for (int32_t root = 0; root < size; root++) {
                fill(in, count, rank);
                fill(out, count, rank);
                /* Elsewhere than at the root there is no output to be in. */
                const int32_t *given = rank == root ? from : in;
                int32_t *place = rank == root ? out : NULL;
                if (background) {
                    OK(lycaon_reduce_async(group, given, place, count, I32, SUM, root, &work));
                    finish(work);
                } else {
                    OK(lycaon_reduce(group, given, place, count, I32, SUM, root));
                }
                for (size_t at = 0; at < count && rank == root; at++) {
                    CHECK(out[at] == sum_at(size, at));
                }
            }
        }
        for (int in_place = 0; in_place < 2; in_place++) {
            fill(in, whole, rank);
            int32_t *place = in_place ? in + (size_t)rank * count : out;
            if (background) {
                OK(lycaon_reduce_scatter_async(group, in, place, count, I32, SUM, &work));
                finish(work);
            } else {
                OK(lycaon_reduce_scatter(group, in, place, count, I32, SUM));
            }
            for (size_t at = 0; at < count; at++) {
                CHECK(place[at] == sum_at(size, (size_t)rank * count + at));
            }
        }
    }
    free(in);
    free(out);
}

static inline void exchanges(lycaon_group *group, size_t count)
{
    const int32_t rank = lycaon_group_rank(group), size = lycaon_group_size(group);
    const size_t whole = count * (size_t)size, mine = (size_t)rank * count;
    int32_t *in = room(whole), *out = room(whole);
    lycaon_work *work = NULL;

    for (int background = 0; background < 2; background++) {
        for (int in_place = 0; in_place < 3; in_place++) {
            fill(in, count, rank);
            memset(out, 0, whole * sizeof *out);
            fill(out + mine, count, rank);
            const int32_t *from = in_place == 0 ? in : in_place == 1 ? out + mine : NULL;
            if (background) {
                OK(lycaon_all_gather_async(group, from, out, count, I32, &work));
                finish(work);
            } else {
                OK(lycaon_all_gather(group, from, out, count, I32));
            }
            for (size_t at = 0; at < whole; at++) {
                CHECK(out[at] == value_of((int32_t)(at / count), at % count));
            }
        }
        for (int32_t root = 0; root < size; root++) {
            fill(in, count, rank);
            if (background) {
                OK(lycaon_broadcast_async(group, in, count, I32, root, &work));
                finish(work);
            } else {
                OK(lycaon_broadcast(group, in, count, I32, root));
            }
            for (size_t at = 0; at < count; at++) {
                CHECK(in[at] == value_of(root, at));
            }
            for (int in_place = 0; in_place < 2; in_place++) {
                const int at_root = rank == root;
                fill(in, count, rank);
                memset(out, 0, whole * sizeof *out);
                fill(out + mine, count, rank);
                const int32_t *from = in_place && at_root ? out + mine : in;
                if (background) {
                    OK(lycaon_gather_async(group, from, out, count, I32, root, &work));
                    finish(work);
                } else {
                    OK(lycaon_gather(group, from, out, count, I32, root));
                }
                for (size_t at = 0; at < whole && at_root; at++) {
                    CHECK(out[at] == value_of((int32_t)(at / count), at % count));
                }
                fill(in, whole, rank);
                int32_t *into = in_place && at_root ? in + mine : out;
                if (background) {
                    OK(lycaon_scatter_async(group, in, into, count, I32, root, &work));
                    finish(work);
                } else {
                    OK(lycaon_scatter(group, in, into, count, I32, root));
                }
                for (size_t at = 0; at < count; at++) {
                    CHECK(into[at] == value_of(root, mine + at));
                }
            }
        }
        for (int in_place = 0; in_place < 2; in_place++) {
            fill(in, whole, rank);
            fill(out, whole, rank);
            const int32_t *from = in_place ? out : in;
            if (background) {
                OK(lycaon_all_to_all_async(group, from, out, count, I32, &work));
                finish(work);
            } else {
                OK(lycaon_all_to_all(group, from, out, count, I32));
            }
            for (size_t at = 0; at < whole; at++) {
                CHECK(out[at] == value_of((int32_t)(at / count), mine + at % count));
            }
        }
        if (background) {
            OK(lycaon_barrier_async(group, &work));
            finish(work);
        } else {
            OK(lycaon_barrier(group));
        }
    }
    free(in);
    free(out);
}

/** Counts that differ by rank: rank i has 2 i + 1 elements. */
static inline void counts_by_rank(lycaon_group *group)
{
    const int32_t rank = lycaon_group_rank(group), size = lycaon_group_size(group);
    uint64_t *counts = (uint64_t *)malloc((size_t)size * sizeof *counts);
    uint64_t *others = (uint64_t *)malloc((size_t)size * sizeof *others);
    CHECK(counts != NULL && others != NULL);
    size_t whole = 0, before = 0;
    for (int32_t other = 0; other < size; other++) {
        counts[other] = 2 * (uint64_t)other + 1;
        before += other < rank ? counts[other] : 0;
        whole += counts[other];
    }
    const size_t own = counts[rank];
    int32_t *in = room(whole * (size_t)size), *out = room(whole * (size_t)size);
    lycaon_work *work = NULL;

    for (int background = 0; background < 2; background++) {
        fill(in, own, rank);
        if (background) {
            OK(lycaon_all_gather_v_async(group, in, out, counts, I32, &work));
            finish(work);
        } else {
            OK(lycaon_all_gather_v(group, in, out, counts, I32));
        }
        size_t at = 0;
        for (int32_t other = 0; other < size; other++) {
            for (size_t place = 0; place < counts[other]; place++) {
                CHECK(out[at++] == value_of(other, place));
            }
        }
        fill(in, whole, rank);
        if (background) {
            OK(lycaon_reduce_scatter_v_async(group, in, out, counts, I32, SUM, &work));
            finish(work);
        } else {
            OK(lycaon_reduce_scatter_v(group, in, out, counts, I32, SUM));
        }
        for (size_t place = 0; place < own; place++) {
            CHECK(out[place] == sum_at(size, before + place));
        }
        const int32_t root = size - 1;
        fill(in, own, rank);
        if (background) {
            OK(lycaon_gather_v_async(group, in, out, own, counts, I32, root, &work));
            finish(work);
        } else {
            OK(lycaon_gather_v(group, in, out, own, counts, I32, root));
        }
        at = 0;
        for (int32_t other = 0; other < size && rank == root; other++) {
            for (size_t place = 0; place < counts[other]; place++) {
                CHECK(out[at++] == value_of(other, place));
            }
        }
        fill(in, whole, rank);
        if (background) {
            OK(lycaon_scatter_v_async(group, in, out, own, counts, I32, root, &work));
            finish(work);
        } else {
            OK(lycaon_scatter_v(group, in, out, own, counts, I32, root));
        }
        for (size_t place = 0; place < own; place++) {
            CHECK(out[place] == value_of(root, before + place));
        }
        /* Rank i sends i + j elements to rank j. */
        size_t sent = 0, received = 0;
        for (int32_t other = 0; other < size; other++) {
            others[other] = (uint64_t)(rank + other);
            sent += others[other];
            received += others[other];
        }
        fill(in, sent, rank);
        if (background) {
            OK(lycaon_all_to_all_v_async(group, in, others, out, others, I32, &work));
            finish(work);
        } else {
            OK(lycaon_all_to_all_v(group, in, others, out, others, I32));
        }
        at = 0;
        for (int32_t other = 0; other < size; other++) {
            size_t skipped = 0;
            for (int32_t earlier = 0; earlier < rank; earlier++) {
                skipped += (size_t)(other + earlier);
            }
            for (size_t place = 0; place < others[other]; place++) {
                CHECK(out[at++] == value_of(other, skipped + place));
            }
        }
        CHECK(at == received);
    }
    free(in);
    free(out);
    free(counts);
    free(others);
}

static inline void messages(lycaon_group *group, size_t count)
{
    const int32_t rank = lycaon_group_rank(group), size = lycaon_group_size(group);
    const int32_t next = (rank + 1) % size, previous = (rank + size - 1) % size;
    int32_t *in = room(count), *out = room(count);
    lycaon_work *sending = NULL, *receiving = NULL;

    if (size == 1) {
        EXPECT(LYCAON_STATUS_SELF_MESSAGE, lycaon_send(group, in, count, I32, 0, 1));
        free(in);
        free(out);
        return;
    }
    fill(in, count, rank);
    OK(lycaon_send_recv(group, in, count, next, out, count, previous, I32, 3));
    for (size_t at = 0; at < count; at++) {
        CHECK(out[at] == value_of(previous, at));
    }
    memset(out, 0, count * sizeof *out);
    OK(lycaon_recv_async(group, out, count, I32, previous, 4, &receiving));
    OK(lycaon_send_async(group, in, count, I32, next, 4, &sending));
    finish(receiving);
    finish(sending);
    for (size_t at = 0; at < count; at++) {
        CHECK(out[at] == value_of(previous, at));
    }
    memset(out, 0, count * sizeof *out);
    OK(lycaon_send_recv_async(group, in, count, previous, out, count, next, I32, 5, &sending));
    finish(sending);
    for (size_t at = 0; at < count; at++) {
        CHECK(out[at] == value_of(next, at));
    }
    /* Each tag is an order of its own. */
    if (rank == 0) {
        OK(lycaon_send_async(group, in, count, I32, 1, 10, &sending));
        OK(lycaon_send(group, out, count, I32, 1, 11));
        finish(sending);
    } else if (rank == 1) {
        OK(lycaon_recv(group, out, count, I32, 0, 11));
        OK(lycaon_recv(group, in, count, I32, 0, 10));
        for (size_t at = 0; at < count; at++) {
            CHECK(in[at] == value_of(0, at) && out[at] == value_of(1 % size, at));
        }
    }
    free(in);
    free(out);
}

/** Sub-groups by even and odd rank, in reverse order; the last rank stays out. */
static inline void sub_groups(lycaon_group *group)
{
    const int32_t rank = lycaon_group_rank(group), size = lycaon_group_size(group);
    const int32_t color = rank == size - 1 && size > 1 ? LYCAON_COLOR_NONE : rank % 2;
    lycaon_group *sub = (lycaon_group *)&color; /* Not NULL, to see it written. */
    OK(lycaon_group_split(group, color, -rank, &sub));
    CHECK((sub == NULL) == (color == LYCAON_COLOR_NONE));
    if (sub == NULL) {
        return;
    }
    int32_t members[64];
    EXPECT(LYCAON_STATUS_LENGTH, lycaon_group_members(sub, members, 0));
    OK(lycaon_group_members(sub, members, 64));
    int64_t sum = rank, wanted = 0;
    for (int32_t at = 0; at < lycaon_group_size(sub); at++) {
        CHECK(members[at] % 2 == rank % 2);
        CHECK(at == 0 || members[at] < members[at - 1]);
        wanted += members[at];
    }
    CHECK(members[lycaon_group_rank(sub)] == rank);
    OK(lycaon_all_reduce(sub, NULL, &sum, 1, LYCAON_DTYPE_I64, SUM));
    CHECK(sum == wanted);
    lycaon_group_free(sub);
}

static inline void everything(lycaon_group *group)
{
    const size_t counts[] = {1, 2, 3, 1000, 70001};
    for (size_t at = 0; at < sizeof counts / sizeof *counts; at++) {
        reductions(group, counts[at]);
        exchanges(group, counts[at]);
        messages(group, counts[at]);
    }
    /* Nothing is ordinary, too, and needs no memory. */
    OK(lycaon_all_reduce(group, NULL, NULL, 0, LYCAON_DTYPE_F64, LYCAON_OP_AVG));
    OK(lycaon_all_gather(group, NULL, NULL, 0, LYCAON_DTYPE_BOOL));
    counts_by_rank(group);
    sub_groups(group);
}

/** Counters, links and the flight recorder after some operations. */
static inline void history(lycaon_group *group)
{
    lycaon_progress progress;
    OK(lycaon_group_progress(group, &progress));
    CHECK(progress.started >= progress.completed && progress.completed > 0);
    lycaon_links *links = NULL;
    OK(lycaon_group_links(group, &links));
    CHECK(lycaon_links_count(links) == (size_t)lycaon_group_size(group) - 1);
    for (size_t at = 0; at < lycaon_links_count(links); at++) {
        const lycaon_link *link = lycaon_links_at(links, at);
        CHECK(link->peer != lycaon_group_rank(group) && link->kind != LYCAON_LINK_KIND_NONE);
        CHECK(strlen(link->detail) > 0);
    }
    CHECK(lycaon_links_at(links, lycaon_links_count(links)) == NULL);
    lycaon_links_free(links);
    lycaon_records *records = NULL;
    OK(lycaon_group_flight_recorder(group, &records));
    CHECK(lycaon_records_count(records) > 0);
    for (size_t at = 0; at < lycaon_records_count(records); at++) {
        const lycaon_record *record = lycaon_records_at(records, at);
        CHECK(record->operation != LYCAON_OPERATION_NONE && record->text != NULL);
        CHECK((record->state == LYCAON_STATE_FAILED) == (record->error != NULL));
    }
    CHECK(lycaon_records_at(records, lycaon_records_count(records)) == NULL);
    lycaon_records_free(records);
}

#endif
