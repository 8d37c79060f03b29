/* The functions of CUDA's driver, HIP and Level Zero that tell what an address is, for a device whose
 * memory the processor cannot access: an access ends the process. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 4 << 20 };
static char *on_device, *managed, *on_host;

static int is_in(const void *at, const char *from)
{
    return from && (const char *)at >= from && (const char *)at < from + SIZE;
}

static char *mapped(int access)
{
    char *at = mmap(NULL, SIZE, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Memory of the device; what moves to who accesses it; what both can access. */
void *fake_device(void) { return on_device = mapped(PROT_NONE); }
void *fake_managed(void) { return managed = mapped(PROT_READ | PROT_WRITE); }
void *fake_host(void) { return on_host = mapped(PROT_READ | PROT_WRITE); }

int cuPointerGetAttribute(void *data, int attribute, unsigned long long address)
{
    const void *at = (const void *)(uintptr_t)address;
    uint32_t value;

    if (!is_in(at, on_device) && !is_in(at, managed) && !is_in(at, on_host))
        return 1; /* CUDA_ERROR_INVALID_VALUE */
    if (attribute == 2) /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
        value = is_in(at, on_host) ? 1 : 2;
    else if (attribute == 8) /* CU_POINTER_ATTRIBUTE_IS_MANAGED */
        value = is_in(at, managed);
    else
        return 1;
    memcpy(data, &value, sizeof value);
    return 0;
}

struct hip_attributes {
    int type, device;
    const void *on_device, *on_host;
    int is_managed;
    unsigned flags;
};

int hipPointerGetAttributes(struct hip_attributes *found, const void *at)
{
    memset(found, 0, sizeof *found);
    if (is_in(at, on_device) || is_in(at, managed) || is_in(at, on_host))
        found->on_device = at;
    if (!is_in(at, on_device))
        found->on_host = at;
    found->is_managed = is_in(at, managed);
    return 0;
}

struct ze_properties {
    uint32_t kind;
    void *next;
    uint32_t type;
    uint64_t id, page_size;
};

static int driver, context;

int zeInit(uint32_t flags) { return flags != 0; }

int zeDriverGet(uint32_t *count, void **drivers)
{
    if (*count > 0)
        drivers[0] = &driver;
    *count = 1;
    return 0;
}

int zeContextCreate(void *of, const void *desc, void **made)
{
    *made = &context;
    return of != &driver || *(const uint32_t *)desc != 0xd;
}

int zeMemGetAllocProperties(void *of, const void *at, struct ze_properties *found, void **device)
{
    if (of != &context || found->kind != 0x17 || device)
        return 1;
    found->type = is_in(at, on_device) ? 2 : is_in(at, managed) ? 3 : is_in(at, on_host) ? 1 : 0;
    return 0;
}
