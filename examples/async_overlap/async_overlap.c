/* Reduces the gradients of each layer in the background while the next layer is computed. */
#include "../support.h"

enum { LAYERS = 6, WEIGHTS = 50000 };

/** Stands for the backward pass of one layer. */
static float *gradient(int32_t rank, int layer)
{
    float *data = room(WEIGHTS * sizeof *data);
    for (int at = 0; at < WEIGHTS; at++) {
        data[at] = (float)((at + layer) % 97) + (float)rank;
    }
    return data;
}

int main(void)
{
    lycaon_group *group = NULL;
    must(lycaon_init(&group));
    const int32_t rank = lycaon_group_rank(group), size = lycaon_group_size(group);

    /* The data of an operation in the background are left alone until it has ended. */
    float *gradients[LAYERS];
    lycaon_work *works[LAYERS];
    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        gradients[layer] = gradient(rank, layer);
        must(lycaon_all_reduce_async(group, NULL, gradients[layer], WEIGHTS, LYCAON_DTYPE_F32,
                                     LYCAON_OP_SUM, &works[layer]));
    }

    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        must(lycaon_work_wait(works[layer]));
        lycaon_work_free(works[layer]);
        for (int at = 0; at < WEIGHTS; at++) {
            const int32_t wanted = size * ((at + layer) % 97) + size * (size - 1) / 2;
            if (gradients[layer][at] != (float)wanted) {
                fprintf(stderr, "layer %d, weight %d: %g\n", layer, at, gradients[layer][at]);
                return 1;
            }
        }
        free(gradients[layer]);
    }
    printf("rank %d: %d layers of %d gradients reduced in the background\n", rank, LAYERS, WEIGHTS);
    lycaon_group_free(group);
    return 0;
}
