// core.cpp - the extension firm._core: errors, and what the other files add.
#include "bind.h"

NB_MODULE(_core, m) {
    m.doc() = "The C side of the package firm. Use the package; names here may change.";
    nb::register_exception_translator([](const std::exception_ptr& p, void*) {
        try {
            std::rethrow_exception(p);
        } catch (const failure& f) {
            try {
                nb::object make = nb::module_::import_("firm.errors").attr("of_status");
                nb::object error = make((int)f.status, f.message);
                PyErr_SetObject((PyObject*)Py_TYPE(error.ptr()), error.ptr());
            } catch (nb::python_error& e) {
                e.restore();
            }
        }
    });
    m.def("version", [] { return firm_version(); });
    m.def("clock_ns", [] { return firm_clock_ns(); });
    bind_model(m);
    bind_controller(m);
    bind_sims(m);
}
