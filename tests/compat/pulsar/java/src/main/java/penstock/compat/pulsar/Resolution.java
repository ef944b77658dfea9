package penstock.compat.pulsar;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.pulsar.shade.org.apache.avro.Schema;
import org.apache.pulsar.shade.org.apache.avro.SchemaParseException;
import org.apache.pulsar.shade.org.apache.avro.SchemaValidationException;
import org.apache.pulsar.shade.org.apache.avro.SchemaValidator;
import org.apache.pulsar.shade.org.apache.avro.SchemaValidatorBuilder;

/** Asks Avro's own library, as Pulsar's brokers do: a line in is a reader and a writer, a line out yes, no or bad. */
public final class Resolution {
    public static void main(String[] args) throws Exception {
        SchemaValidator canRead = new SchemaValidatorBuilder().canReadStrategy().validateLatest();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] pair = line.split("\t");
            System.out.println(answer(canRead, pair[0], pair[1]));
        }
    }

    private static String answer(SchemaValidator canRead, String reader, String writer) {
        try {
            canRead.validate(parsed(reader), List.of(parsed(writer)));
            return "yes";
        } catch (SchemaParseException error) {
            return "bad";
        } catch (SchemaValidationException | RuntimeException error) {
            return "no"; // what it throws otherwise is of aliases and defaults that cannot be
        }
    }

    private static Schema parsed(String text) {
        Schema.Parser parser = new Schema.Parser();
        parser.setValidateDefaults(false);
        return parser.parse(text);
    }

    private Resolution() {
    }
}
