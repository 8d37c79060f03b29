/* Jobs that a job starts: their parents, arguments, wishes and numbers; names of services; programs
 * that cannot be started or end early; and many of them, one after the other. */
#include "check.h"

#include <string.h>
#include <unistd.h>

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

/* The part of a job that was started. */
static int child(MPI_Comm parent, int argc, char **argv)
{
    int rank, size, far, *appnum, *universe, flag, sum;
    MPI_Comm merged, again;
    char folder[1000], name[MPI_MAX_OBJECT_NAME];

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_remote_size(parent, &far);
    MPI_Comm_get_name(parent, name, &flag);
    CHECK(strcmp(name, "MPI_COMM_PARENT") == 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag);
    CHECK(flag);
    if (strcmp(argv[1], "alone") == 0) {
        CHECK(argc == 4 && strcmp(argv[2], "two words") == 0 && strcmp(argv[3], "a=b") == 0);
        CHECK(getcwd(folder, sizeof folder) && strcmp(folder, "/") == 0);
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
        CHECK(!flag || *universe >= far);
    } else if (strcmp(argv[1], "leaves") == 0) {
        /* Dies among the others, after it has connected. */
        MPI_Barrier(parent);
        _exit(3);
    } else if (strcmp(argv[1], "many") != 0) {
        CHECK(atoi(argv[1]) == *appnum && rank >= *appnum);
    }
    if (strcmp(argv[1], "many") != 0) {
        MPI_Intercomm_merge(parent, 1, &merged);
        MPI_Comm_rank(merged, &flag);
        CHECK(flag == far + rank);
        /* All together start one more, which the last one leads. */
        char *args[] = { "many", NULL };
        MPI_Comm_size(merged, &flag);
        MPI_Comm_spawn(argv[0], args, 1, MPI_INFO_NULL, flag - 1, merged, &again, MPI_ERRCODES_IGNORE);
        MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, again);
        CHECK(sum == 1);
        MPI_Comm_disconnect(&again);
        MPI_Comm_disconnect(&merged);
    } else {
        MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, parent);
        CHECK(sum == far);
    }
    MPI_Comm_disconnect(&parent);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
    MPI_Finalize();
    return 0;
}

/* Merges, and starts one more with all of them. */
static void together(MPI_Comm inter, const char *self)
{
    MPI_Comm merged, again;
    int size, sum;
    MPI_Intercomm_merge(inter, 0, &merged);
    MPI_Comm_size(merged, &size);
    MPI_Comm_spawn(self, MPI_ARGV_NULL, 0, MPI_INFO_NULL, size - 1, merged, &again, MPI_ERRCODES_IGNORE);
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, again);
    CHECK(sum == 1);
    MPI_Comm_disconnect(&again);
    MPI_Comm_disconnect(&merged);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    MPI_Info info;
    int rank, size, i, sum, code, codes[4];
    char text[MPI_MAX_ERROR_STRING], port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME];

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    int times = argc > 1 ? atoi(argv[1]) : 5;
    int is_ours = argc > 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    /* One program, with arguments and a folder. */
    char *args[] = { "alone", "two words", "a=b", NULL };
    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", "/");
    memset(codes, 1, sizeof codes);
    MPI_Comm_spawn(argv[0], args, 2, info, 0, MPI_COMM_WORLD, &inter, codes);
    CHECK(codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS);
    MPI_Comm_remote_size(inter, &i);
    CHECK(i == 2);
    together(inter, argv[0]);
    MPI_Comm_disconnect(&inter);

    /* Two programs in one job. */
    char *programs[] = { argv[0], argv[0] };
    char *first[] = { "0", NULL }, *second[] = { "1", NULL }, **all[] = { first, second };
    int numbers[] = { 1, 2 };
    MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
    MPI_Comm_spawn_multiple(2, programs, all, numbers, infos, size - 1, MPI_COMM_WORLD, &inter, codes);
    MPI_Comm_remote_size(inter, &i);
    CHECK(i == 3 && codes[2] == MPI_SUCCESS);
    together(inter, argv[0]);
    MPI_Comm_disconnect(&inter);

    /* Many jobs, one after the other. */
    char *many[] = { "many", NULL };
    for (i = 0; i < times; i++) {
        MPI_Comm_spawn(argv[0], many, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
        MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, inter);
        CHECK(sum == 1);
        MPI_Comm_disconnect(&inter);
    }

    /* Names of services. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0) {
        CHECK(class_of(MPI_Lookup_name("netmod a b=c", MPI_INFO_NULL, found)) == MPI_ERR_NAME);
        CHECK(MPI_Open_port(MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(MPI_Publish_name("netmod a b=c", MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(MPI_Lookup_name("netmod a b=c", MPI_INFO_NULL, found) == MPI_SUCCESS);
        CHECK(strcmp(port, found) == 0);
        if (is_ours)
            CHECK(class_of(MPI_Publish_name("netmod a b=c", MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
        CHECK(MPI_Unpublish_name("netmod a b=c", MPI_INFO_NULL, port) == MPI_SUCCESS);
        CHECK(class_of(MPI_Lookup_name("netmod a b=c", MPI_INFO_NULL, found)) == MPI_ERR_NAME);
        CHECK(class_of(MPI_Unpublish_name("netmod a b=c", MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
        CHECK(MPI_Close_port(port) == MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);

    /* Programs that cannot be started, and one that ends without MPI: errors with their causes. */
    CHECK(class_of(MPI_Comm_spawn(argv[0], many, 0, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes)) == MPI_ERR_SPAWN);
    if (is_ours) {
        memset(codes, 0, sizeof codes);
        code = MPI_Comm_spawn("/no/such/program", many, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
        CHECK(class_of(code) == MPI_ERR_SPAWN);
        CHECK(class_of(codes[0]) == MPI_ERR_SPAWN && class_of(codes[1]) == MPI_ERR_SPAWN);
        MPI_Error_string(code, text, &i);
        CHECK(strstr(text, "no such program"));
        MPI_Info_set(info, "host", "no-such-host");
        code = MPI_Comm_spawn(argv[0], many, 1, info, 0, MPI_COMM_WORLD, &inter, codes);
        MPI_Error_string(code, text, &i);
        CHECK(class_of(code) == MPI_ERR_SPAWN && strstr(text, "no-such-host"));
        code = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
        MPI_Error_string(code, text, &i);
        CHECK(class_of(code) == MPI_ERR_SPAWN && strstr(text, "MPI_Init"));
        /* One that dies later fails what needs it, and nothing else. */
        char *leaves[] = { "leaves", NULL };
        CHECK(MPI_Comm_spawn(argv[0], leaves, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes) == MPI_SUCCESS);
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        MPI_Barrier(inter);
        if (rank == 0) {
            code = MPI_Recv(&i, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
            CHECK(code != MPI_SUCCESS);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Comm_disconnect(&inter);
    }
    CHECK(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && sum == size);
    MPI_Info_free(&info);
    MPI_Finalize();
    printf("rank %d: spawn ok\n", rank);
    return 0;
}
