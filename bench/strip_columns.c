// strip_columns.c - copies columns of an HDF5 file under other names, and nothing else of it: no
// other column, no attribute. Makes data as a robot would record them, for scripts/recorded.sh.
//
//     build/strip_columns F.h5 OUT.h5 pixels=camera action=motor state=pose ep_len=ep_len
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64, MOST_RANK = 4 };

static int copy_rows(hid_t from, hid_t to, hid_t type, int rank, const hsize_t* dims) {
    hsize_t block[MOST_RANK], start[MOST_RANK] = {0}, numbers = 1;
    for (int i = 1; i < rank; i++) numbers *= dims[i];
    memcpy(block, dims, sizeof block);
    void* rows = malloc(CHUNK * numbers * H5Tget_size(type));
    int fine = rows != NULL;
    for (start[0] = 0; start[0] < dims[0] && fine; start[0] += block[0]) {
        block[0] = dims[0] - start[0] < CHUNK ? dims[0] - start[0] : CHUNK;
        hid_t memory = H5Screate_simple(rank, block, NULL), space = H5Dget_space(from);
        fine = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, block, NULL) >= 0 &&
               H5Dread(from, type, memory, space, H5P_DEFAULT, rows) >= 0 &&
               H5Dwrite(to, type, memory, space, H5P_DEFAULT, rows) >= 0;
        H5Sclose(memory);
        H5Sclose(space);
    }
    free(rows);
    return fine;
}

static int copy_column(hid_t in, hid_t out, const char* name, const char* as) {
    hsize_t dims[MOST_RANK] = {1, 1, 1, 1}, chunk[MOST_RANK];
    hid_t from = H5Dopen2(in, name, H5P_DEFAULT);
    if (from < 0) return 0;
    hid_t space = H5Dget_space(from), type = H5Dget_type(from),
          list = H5Pcreate(H5P_DATASET_CREATE);
    int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 1 || rank > MOST_RANK) return 0;
    H5Sget_simple_extent_dims(space, dims, NULL);
    memcpy(chunk, dims, sizeof chunk);
    chunk[0] = rank == MOST_RANK ? 1 : dims[0];
    H5Pset_chunk(list, rank, chunk);
    hid_t plain = H5Screate_simple(rank, dims, NULL);
    hid_t to = H5Dcreate2(out, as, type, plain, H5P_DEFAULT, list, H5P_DEFAULT);
    int fine = to >= 0 && copy_rows(from, to, type, rank, dims);
    H5Dclose(to);
    H5Dclose(from);
    H5Sclose(plain);
    H5Sclose(space);
    H5Tclose(type);
    H5Pclose(list);
    return fine;
}

int main(int argc, char** argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: strip_columns F.h5 OUT.h5 COLUMN=NEW ...\n");
        return 2;
    }
    hid_t in = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t out = in < 0 ? -1 : H5Fcreate(argv[2], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    int fine = out >= 0;
    for (int i = 3; i < argc && fine; i++) {
        char* sign = strchr(argv[i], '=');
        if (sign) *sign = 0;
        fine = sign && copy_column(in, out, argv[i], sign + 1);
        if (!fine) fprintf(stderr, "strip_columns: column '%s' of %s\n", argv[i], argv[1]);
    }
    if (out >= 0) fine = H5Fclose(out) >= 0 && fine;
    if (in >= 0) H5Fclose(in);
    return fine ? 0 : 2;
}
