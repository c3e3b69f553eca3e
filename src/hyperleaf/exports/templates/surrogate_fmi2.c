/* FMI 2.0 for co-simulation, over @header@: inputs are set, outputs are worked out when they are asked for. There are no states,
 * so a step is nothing but a place in time.
 */
#include "@header@"

#include <math.h>
#include <stddef.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define INPUTS @NAME@_INPUTS
#define SLOPES @slopes@ /* how many real inputs there are derivatives by */
#define COLUMNS (2 + @NAME@_QUANTILES + 2 * SLOPES)
#define REALS (@NAME@_OUTPUTS * COLUMNS)
#define OUTSIDE (INPUTS + REALS) /* reference of the flag */

typedef void *component_t;
typedef unsigned int reference_t;
typedef int boolean_t;
typedef const char *string_t;
typedef enum { OK, WARNING, DISCARD, ERROR, FATAL, PENDING } status_t;

typedef struct {
    void (*logger)(void *environment, string_t instance, status_t status, string_t category, string_t message, ...);
    void *(*allocate)(size_t count, size_t size);
    void (*release)(void *memory);
    void (*step_finished)(void *environment, status_t status);
    void *environment;
} callbacks_t;

typedef struct {
    const callbacks_t *callbacks;
    double inputs[INPUTS];
    double outputs[REALS];
    int found; /* what the surrogate said of the inputs */
    int fresh; /* whether the outputs are those of the inputs */
} instance_t;

static const double start[INPUTS] = {@START@};
static const int is_real[INPUTS] = {@IS_REAL@};

static void to_start(instance_t *instance)
{
    size_t i;
    for (i = 0; i < INPUTS; i++) {
        instance->inputs[i] = start[i];
    }
    instance->fresh = 0;
}

#if SLOPES > 0
static void add_slopes(instance_t *instance)
{
    double mean[@NAME@_OUTPUTS * INPUTS];
    double std[@NAME@_OUTPUTS * INPUTS];
    size_t p, i;
    (void)@name@_slopes(instance->inputs, mean, std);
    for (p = 0; p < @NAME@_OUTPUTS; p++) {
        double *row = instance->outputs + p * COLUMNS + 2 + @NAME@_QUANTILES;
        for (i = 0; i < INPUTS; i++) {
            if (is_real[i]) {
                *row++ = mean[p * INPUTS + i];
                *row++ = std[p * INPUTS + i];
            }
        }
    }
}
#endif

static void work_out(instance_t *instance)
{
    double mean[@NAME@_OUTPUTS];
    double std[@NAME@_OUTPUTS];
    double quantiles[@NAME@_OUTPUTS * @NAME@_QUANTILES + 1];
    size_t p;
    if (instance->fresh == 0) {
        instance->found = @name@_predict(instance->inputs, mean, std, quantiles);
        for (p = 0; p < @NAME@_OUTPUTS; p++) {
            double *row = instance->outputs + p * COLUMNS;
            row[0] = mean[p];
            row[1] = std[p];
#if @NAME@_QUANTILES > 0
            {
                size_t q;
                for (q = 0; q < @NAME@_QUANTILES; q++) {
                    row[2 + q] = quantiles[p * @NAME@_QUANTILES + q];
                }
            }
#endif
        }
#if SLOPES > 0
        add_slopes(instance);
#endif
        instance->fresh = 1;
    }
}

EXPORT string_t fmi2GetTypesPlatform(void)
{
    return "default";
}

EXPORT string_t fmi2GetVersion(void)
{
    return "2.0";
}

EXPORT component_t fmi2Instantiate(string_t name, int kind, string_t guid, string_t resources, const callbacks_t *callbacks,
                                   boolean_t visible, boolean_t logging)
{
    instance_t *instance = NULL;
    const char *mine = "@GUID@";
    size_t i = 0;
    (void)name;
    (void)resources;
    (void)visible;
    (void)logging;
    while ((guid != NULL) && (mine[i] != '\0') && (guid[i] == mine[i])) {
        i++;
    }
    if ((kind == 1) && (guid != NULL) && (mine[i] == '\0') && (guid[i] == '\0') && (@name@_init() == 0)) {
        instance = callbacks->allocate(1, sizeof *instance);
    }
    if (instance != NULL) {
        instance->callbacks = callbacks;
        to_start(instance);
    }
    return instance;
}

EXPORT void fmi2FreeInstance(component_t c)
{
    instance_t *instance = c;
    if (instance != NULL) {
        instance->callbacks->release(instance);
    }
}

EXPORT status_t fmi2SetDebugLogging(component_t c, boolean_t on, size_t count, const string_t categories[])
{
    (void)c;
    (void)on;
    (void)count;
    (void)categories;
    return OK;
}

EXPORT status_t fmi2SetupExperiment(component_t c, boolean_t given, double tolerance, double begin, boolean_t ends, double end)
{
    (void)c;
    (void)given;
    (void)tolerance;
    (void)begin;
    (void)ends;
    (void)end;
    return OK;
}

EXPORT status_t fmi2EnterInitializationMode(component_t c)
{
    (void)c;
    return OK;
}

EXPORT status_t fmi2ExitInitializationMode(component_t c)
{
    (void)c;
    return OK;
}

EXPORT status_t fmi2Terminate(component_t c)
{
    (void)c;
    return OK;
}

EXPORT status_t fmi2Reset(component_t c)
{
    to_start(c);
    return OK;
}

static status_t set_input(instance_t *instance, reference_t reference, int real, double value)
{
    if ((reference >= INPUTS) || (is_real[reference] != real)) {
        return ERROR;
    }
    instance->inputs[reference] = value;
    instance->fresh = 0;
    return OK;
}

EXPORT status_t fmi2GetReal(component_t c, const reference_t references[], size_t count, double values[])
{
    instance_t *instance = c;
    status_t status = OK;
    size_t i;
    for (i = 0; i < count; i++) {
        const reference_t reference = references[i];
        if ((reference < INPUTS) && is_real[reference]) {
            values[i] = instance->inputs[reference];
        } else if ((reference >= INPUTS) && (reference < OUTSIDE)) {
            work_out(instance);
            values[i] = instance->outputs[reference - INPUTS];
        } else {
            status = ERROR;
        }
    }
    return status;
}

EXPORT status_t fmi2GetInteger(component_t c, const reference_t references[], size_t count, int values[])
{
    instance_t *instance = c;
    status_t status = OK;
    size_t i;
    for (i = 0; i < count; i++) {
        const reference_t reference = references[i];
        if ((reference < INPUTS) && !is_real[reference]) {
            values[i] = (int)instance->inputs[reference];
        } else {
            status = ERROR;
        }
    }
    return status;
}

EXPORT status_t fmi2GetBoolean(component_t c, const reference_t references[], size_t count, boolean_t values[])
{
    instance_t *instance = c;
    status_t status = OK;
    size_t i;
    for (i = 0; i < count; i++) {
        if (references[i] == OUTSIDE) {
            work_out(instance);
            values[i] = (instance->found == @NAME@_INSIDE) ? 0 : 1;
        } else {
            status = ERROR;
        }
    }
    return status;
}

EXPORT status_t fmi2GetString(component_t c, const reference_t references[], size_t count, string_t values[])
{
    (void)c;
    (void)references;
    (void)values;
    return (count == 0) ? OK : ERROR;
}

EXPORT status_t fmi2SetReal(component_t c, const reference_t references[], size_t count, const double values[])
{
    status_t status = OK;
    size_t i;
    for (i = 0; (i < count) && (status == OK); i++) {
        status = set_input(c, references[i], 1, values[i]);
    }
    return status;
}

EXPORT status_t fmi2SetInteger(component_t c, const reference_t references[], size_t count, const int values[])
{
    status_t status = OK;
    size_t i;
    for (i = 0; (i < count) && (status == OK); i++) {
        status = set_input(c, references[i], 0, (double)values[i]);
    }
    return status;
}

EXPORT status_t fmi2SetBoolean(component_t c, const reference_t references[], size_t count, const boolean_t values[])
{
    (void)c;
    (void)references;
    (void)values;
    return (count == 0) ? OK : ERROR;
}

EXPORT status_t fmi2SetString(component_t c, const reference_t references[], size_t count, const string_t values[])
{
    (void)c;
    (void)references;
    (void)values;
    return (count == 0) ? OK : ERROR;
}

EXPORT status_t fmi2DoStep(component_t c, double time, double step, boolean_t keep)
{
    (void)time;
    (void)step;
    (void)keep;
    work_out(c);
    return OK;
}

/* What is not offered; the description says so. */

EXPORT status_t fmi2GetFMUstate(component_t c, void **state)
{
    (void)c;
    (void)state;
    return ERROR;
}

EXPORT status_t fmi2SetFMUstate(component_t c, void *state)
{
    (void)c;
    (void)state;
    return ERROR;
}

EXPORT status_t fmi2FreeFMUstate(component_t c, void **state)
{
    (void)c;
    (void)state;
    return ERROR;
}

EXPORT status_t fmi2SerializedFMUstateSize(component_t c, void *state, size_t *size)
{
    (void)c;
    (void)state;
    (void)size;
    return ERROR;
}

EXPORT status_t fmi2SerializeFMUstate(component_t c, void *state, char bytes[], size_t size)
{
    (void)c;
    (void)state;
    (void)bytes;
    (void)size;
    return ERROR;
}

EXPORT status_t fmi2DeSerializeFMUstate(component_t c, const char bytes[], size_t size, void **state)
{
    (void)c;
    (void)bytes;
    (void)size;
    (void)state;
    return ERROR;
}

EXPORT status_t fmi2GetDirectionalDerivative(component_t c, const reference_t unknown[], size_t unknowns, const reference_t known[],
                                             size_t knowns, const double seed[], double sensitivity[])
{
    (void)c;
    (void)unknown;
    (void)unknowns;
    (void)known;
    (void)knowns;
    (void)seed;
    (void)sensitivity;
    return ERROR;
}

EXPORT status_t fmi2SetRealInputDerivatives(component_t c, const reference_t references[], size_t count, const int order[],
                                            const double values[])
{
    (void)c;
    (void)references;
    (void)count;
    (void)order;
    (void)values;
    return ERROR;
}

EXPORT status_t fmi2GetRealOutputDerivatives(component_t c, const reference_t references[], size_t count, const int order[],
                                             double values[])
{
    (void)c;
    (void)references;
    (void)count;
    (void)order;
    (void)values;
    return ERROR;
}

EXPORT status_t fmi2CancelStep(component_t c)
{
    (void)c;
    return ERROR;
}

EXPORT status_t fmi2GetStatus(component_t c, int kind, status_t *value)
{
    (void)c;
    (void)kind;
    (void)value;
    return DISCARD;
}

EXPORT status_t fmi2GetRealStatus(component_t c, int kind, double *value)
{
    (void)c;
    (void)kind;
    (void)value;
    return DISCARD;
}

EXPORT status_t fmi2GetIntegerStatus(component_t c, int kind, int *value)
{
    (void)c;
    (void)kind;
    (void)value;
    return DISCARD;
}

EXPORT status_t fmi2GetBooleanStatus(component_t c, int kind, boolean_t *value)
{
    (void)c;
    (void)kind;
    (void)value;
    return DISCARD;
}

EXPORT status_t fmi2GetStringStatus(component_t c, int kind, string_t *value)
{
    (void)c;
    (void)kind;
    (void)value;
    return DISCARD;
}
