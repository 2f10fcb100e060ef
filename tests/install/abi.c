// abi.c - prints the layout of firm.h's structs and the values of its constants, as a compiled
// program has them built in. abi.txt is what it prints, and the library's symbols.
#include <firm.h>
#include <stdio.h>

#define STRUCT(type) printf("%s: %zu bytes\n", #type, sizeof(type))
#define MEMBER(type, name) \
    printf("%s.%s: %zu, %zu bytes\n", #type, #name, offsetof(type, name), sizeof((type*)0)->name)
#define CONSTANT(name) printf("%s = %d\n", #name, (int)(name))

#define STATUS(name, text) CONSTANT(FIRM_##name);

int main(void) {
    CONSTANT(FIRM_ABI);
    FIRM_STATUS_MAP(STATUS)
    CONSTANT(FIRM_LOG_INFO);
    CONSTANT(FIRM_LOG_WARN);
    CONSTANT(FIRM_MAX_ACTION);
    CONSTANT(FIRM_MAX_CONFIG);
    CONSTANT(FIRM_HISTORY);
    CONSTANT(FIRM_MODE_CONTRACT);
    CONSTANT(FIRM_MODE_REACH);
    CONSTANT(FIRM_DEVICE_CPU);
    CONSTANT(FIRM_DEVICE_CUDA);
    CONSTANT(FIRM_PRECISION_FP32);
    CONSTANT(FIRM_PRECISION_TF32);
    CONSTANT(FIRM_PRECISION_BF16);
    CONSTANT(FIRM_SOLVER_DEFAULT);
    CONSTANT(FIRM_SOLVER_CEM);
    CONSTANT(FIRM_SOLVER_MPPI);
    CONSTANT(FIRM_SOLVER_ICEM);

    STRUCT(firm_error);
    MEMBER(firm_error, status);
    MEMBER(firm_error, where);
    MEMBER(firm_error, message);

    STRUCT(firm_model_info);
    MEMBER(firm_model_info, task);
    MEMBER(firm_model_info, image_size);
    MEMBER(firm_model_info, action_dim);
    MEMBER(firm_model_info, controls_per_macro);
    MEMBER(firm_model_info, config_dim);
    MEMBER(firm_model_info, config_name);
    MEMBER(firm_model_info, distance_dim);
    MEMBER(firm_model_info, distance_name);
    MEMBER(firm_model_info, distance_unit);
    MEMBER(firm_model_info, distance_tolerance);
    MEMBER(firm_model_info, parameters);
    MEMBER(firm_model_info, reserved);

    STRUCT(firm_controller_params);
    MEMBER(firm_controller_params, size);
    MEMBER(firm_controller_params, mode);
    MEMBER(firm_controller_params, seed);
    MEMBER(firm_controller_params, threads);
    MEMBER(firm_controller_params, candidates);
    MEMBER(firm_controller_params, iterations);
    MEMBER(firm_controller_params, elites);
    MEMBER(firm_controller_params, horizon);
    MEMBER(firm_controller_params, fan);
    MEMBER(firm_controller_params, device);
    MEMBER(firm_controller_params, precision);
    MEMBER(firm_controller_params, gpu);
    MEMBER(firm_controller_params, affinity);
    MEMBER(firm_controller_params, solver);

    STRUCT(firm_step);
    MEMBER(firm_step, action);
    MEMBER(firm_step, solved);
    MEMBER(firm_step, late);
    MEMBER(firm_step, nonfinite);
    MEMBER(firm_step, iterations);
    MEMBER(firm_step, solve_ms);
    MEMBER(firm_step, cost);
    MEMBER(firm_step, arrival);
    MEMBER(firm_step, distance_now);
    MEMBER(firm_step, distance_planned);
    MEMBER(firm_step, horizon);
    MEMBER(firm_step, fan);
    MEMBER(firm_step, plan);
    MEMBER(firm_step, path);
    MEMBER(firm_step, fan_path);
    MEMBER(firm_step, goal_config);
    MEMBER(firm_step, reached);
    MEMBER(firm_step, strange);
    MEMBER(firm_step, reserved);
    return 0;
}
