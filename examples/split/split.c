/* Groups within groups: ranks as a grid whose rows and columns are groups of their own. */
#include "../support.h"

/* Ranks in one row of the grid. */
enum { WIDTH = 2 };

/** Sums a number over a group and prints who is in it. */
static void sum(const char *name, lycaon_group *group, int32_t number, const char *after)
{
    const size_t size = (size_t)lycaon_group_size(group);
    int32_t *members = room(size * sizeof *members);
    must(lycaon_group_members(group, members, size));
    must(lycaon_all_reduce(group, NULL, &number, 1, LYCAON_DTYPE_I32, LYCAON_OP_SUM));
    printf("%s [", name);
    for (size_t at = 0; at < size; at++) {
        printf("%s%d", at == 0 ? "" : ", ", members[at]);
    }
    printf("] sums to %d%s", number, after);
    free(members);
}

int main(void)
{
    lycaon_group *group = NULL, *across = NULL, *down = NULL, *corner = NULL;
    must(lycaon_init(&group));
    const int32_t rank = lycaon_group_rank(group);
    const int32_t row = rank / WIDTH, column = rank % WIDTH;

    /* Ranks of one colour form a group; the key says their order in it. */
    must(lycaon_group_split(group, row, column, &across));
    must(lycaon_group_split(group, column, row, &down));
    /* A rank may stay out. */
    must(lycaon_group_split(group, row == 0 ? 0 : LYCAON_COLOR_NONE, 0, &corner));

    printf("rank %d: ", rank);
    sum("row", across, rank + 1, ", ");
    sum("column", down, rank + 1, "; of the first row it ");
    if (corner == NULL) {
        puts("stays out");
    } else {
        printf("is %d of %d\n", lycaon_group_rank(corner), lycaon_group_size(corner));
    }

    lycaon_group_free(corner);
    lycaon_group_free(down);
    lycaon_group_free(across);
    lycaon_group_free(group);
    return 0;
}
