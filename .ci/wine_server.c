/* Calls functions of a library for another process, in memory that both map at the same address.

   FILE ADDRESS LIBRARY; then lines of a function's name and the address of its words are read, and
   each is answered by a line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

int main(int count, char **given) {
    HMODULE library = LoadLibraryA(given[3]);
    HANDLE file = CreateFileA(given[1], GENERIC_READ | GENERIC_WRITE,
                              FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
    HANDLE mapping = CreateFileMappingA(file, NULL, PAGE_READWRITE, 0, 0, NULL);
    void *wanted = (void *)_strtoui64(given[2], NULL, 10);
    void *memory = MapViewOfFileEx(mapping, FILE_MAP_ALL_ACCESS, 0, 0, 0, wanted);
    char name[4000];
    unsigned long long words;
    if (!library || memory != wanted) {
        printf("library %p, memory %p, error %lu\n", (void *)library, memory, GetLastError());
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    while (scanf("%3999s %llu", name, &words) == 2) {
        void (*function)(int64_t) = (void (*)(int64_t))(void *)GetProcAddress(library, name);
        if (function)
            function((int64_t)words);
        printf(function ? "done\n" : "there is no %s\n", name);
        fflush(stdout);
    }
    return 0;
}
