// env_test.c - the typed tasks of the simulators: their texts read back, and model files of version
// 0.1, which hold a task's name alone, still mean the same tasks.
#include "env/env.h"

#include "check.h"

TEST(task, texts_of_the_simulators_read_back) {
    for (int i = 0; env_at(i); i++) {
        char text[TASK_TEXT];
        task_typed back;
        firm_error err;
        EXPECT(task_write(&env_at(i)->task, text, sizeof text));
        REQUIRE_OK(task_read("text", text, &back, &err), err);
        EXPECT(memcmp(&env_at(i)->task, &back, sizeof back) == 0);
    }
}

TEST(task, old_files_are_of_these_tasks) {
    for (int i = 0; env_at(i); i++) {
        char text[2][TASK_TEXT];
        const task_typed* t = &env_at(i)->task;
        const char* from = task_of_version_1(t->name);
        if (!env_at(i)->study) continue;  // newer than these files
        task_typed old;
        firm_error err;
        EXPECT(from != NULL);
        if (!from) continue;
        REQUIRE_OK(task_read("old", from, &old, &err), err);
        EXPECT(task_write(t, text[0], TASK_TEXT) && task_write(&old, text[1], TASK_TEXT));
        EXPECT_TEXT(text[1], text[0]);
    }
    EXPECT(task_of_version_1("chess") == NULL);
}
