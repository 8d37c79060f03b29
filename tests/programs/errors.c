/* Classes, codes and texts of errors that the program adds and removes. Prints "rank N: errors ok". */
#include "check.h"

#include <string.h>

static int class_of(int code)
{
    int class = -1;
    int result = MPI_Error_class(code, &class);
    return result == MPI_SUCCESS ? class : -1;
}

static int says(int code, const char *words)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = -1;
    return MPI_Error_string(code, text, &length) == MPI_SUCCESS && strcmp(text, words) == 0
           && length == (int)strlen(words);
}

/* The attribute as the program sees it. */
static int last_used(void)
{
    int *value, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag);
    CHECK(flag);
    return *value;
}

int main(int argc, char **argv)
{
    int rank, early, class, code, of_mpi, later;

    /* These functions work before the beginning of MPI. */
    CHECK(MPI_Add_error_class(&early) == MPI_SUCCESS && early > MPI_ERR_LASTCODE);
    CHECK(class_of(MPI_ERR_TAG) == MPI_ERR_TAG && says(MPI_SUCCESS, "no error"));
    CHECK(MPI_Remove_error_class(early) == MPI_SUCCESS && class_of(early) == -1);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(last_used() == MPI_ERR_LASTCODE);
    /* An error of the library is no code of the program. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Send(NULL, 0, MPI_INT, 0, -5, MPI_COMM_WORLD);
    CHECK(class_of(code) == MPI_ERR_TAG && code < MPI_ERR_LASTCODE);
    CHECK(last_used() == MPI_ERR_LASTCODE);

    CHECK(MPI_Add_error_class(&class) == MPI_SUCCESS && last_used() == class);
    CHECK(MPI_Add_error_code(class, &code) == MPI_SUCCESS && last_used() == code);
    CHECK(MPI_Add_error_code(MPI_ERR_ROOT, &of_mpi) == MPI_SUCCESS && last_used() == of_mpi);
    CHECK(class > MPI_ERR_LASTCODE && code > class && of_mpi > code);
    CHECK(class_of(class) == class && class_of(code) == class && class_of(of_mpi) == MPI_ERR_ROOT);
    CHECK(says(class, "") && says(code, ""));
    CHECK(MPI_Add_error_string(class, "a class of the program") == MPI_SUCCESS);
    CHECK(MPI_Add_error_string(code, "too hot") == MPI_SUCCESS);
    CHECK(MPI_Add_error_string(code, "much too hot") == MPI_SUCCESS);
    CHECK(says(class, "a class of the program") && says(code, "much too hot"));

    /* What belongs to MPI, or to nobody, cannot be changed. */
    CHECK(class_of(MPI_Add_error_string(MPI_ERR_TAG, "mine")) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Add_error_code(code, &later)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Add_error_code(of_mpi + 1, &later)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Remove_error_class(MPI_ERR_TAG)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Remove_error_code(of_mpi + 1)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Remove_error_string(MPI_ERR_TAG)) == MPI_ERR_ARG);
    CHECK(class_of(-1) == -1 && class_of(MPI_ERR_LASTCODE) == -1 && class_of(of_mpi + 1) == -1);

    /* A text goes first, then codes, then their class. */
    CHECK(class_of(MPI_Remove_error_code(code)) == MPI_ERR_ARG);
    CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS && says(code, ""));
    CHECK(MPI_Remove_error_string(class) == MPI_SUCCESS && says(class, ""));
    CHECK(class_of(MPI_Remove_error_class(class)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Remove_error_class(code)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Remove_error_code(class)) == MPI_ERR_ARG);
    CHECK(MPI_Remove_error_code(code) == MPI_SUCCESS && class_of(code) == -1);
    CHECK(MPI_Remove_error_class(class) == MPI_SUCCESS && class_of(class) == -1);
    CHECK(last_used() == of_mpi && class_of(of_mpi) == MPI_ERR_ROOT);
    CHECK(MPI_Remove_error_code(of_mpi) == MPI_SUCCESS && last_used() == MPI_ERR_LASTCODE);

    printf("rank %d: errors ok\n", rank);
    return MPI_Finalize();
}
