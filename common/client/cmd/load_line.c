/* common/client/cmd/load_line.c - see load_line.h. */
#include "common/client/cmd/load_line.h"

#include <string.h>

/* RANK TAB COUNT TAB KEY. */
static const char *
read_row(const struct load_line_form *form, const char *text, size_t left,
         struct increment *out)
{
    static const char form_is[] = "with -k give RANK TAB COUNT TAB KEY, as "
                                  "countd range --tsv prints them";
    const struct increment_fault *fault;
    const char *field;
    int64_t rank;
    size_t size;

    if (!increment_field_cut(&text, &left, &field, &size) ||
        increment_number_parse(field, size, &rank) < 0 ||
        !increment_field_cut(&text, &left, &field, &size))
        return form_is;
    fault = increment_count_read(field, size, &out->count);
    if (fault)
        return fault->text;
    if (!increment_field_cut(&text, &left, &field, &size) || text != NULL)
        return form_is;
    out->keyspace.size = form->keyspace->size;
    memcpy(out->keyspace.bytes, form->keyspace->bytes, form->keyspace->size);
    fault = increment_name_read(&form->form, field, size, form->form.key_max,
                                &out->key);
    return fault ? fault->text : NULL;
}

const char *
load_line_read(const struct load_line_form *form, const char *text, size_t size,
               struct increment *out)
{
    const struct increment_fault *fault;

    if (form->keyspace != NULL)
        return read_row(form, text, size, out);
    fault = increment_line_read(&form->form, text, size, out);
    return fault ? fault->text : NULL;
}
