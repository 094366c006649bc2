import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.avro.*;
import org.apache.avro.generic.*;
import org.apache.avro.io.*;

/**
 * What Java's own Avro reads. Each line of stdin is {"schema": text, "messages": [base64]}; each line of stdout is a list
 * with the fields of each message as JSON, or null for a message that it refuses; or
 * null for a schema that it refuses.
 */
public class AvroInJava {
  static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws IOException {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    for (String line; (line = lines.readLine()) != null; ) {
      JsonNode asked = JSON.readTree(line);
      out.println(JSON.writeValueAsString(all(asked.get("schema").asText(), asked.get("messages"))));
    }
    out.flush();
  }

  static JsonNode all(String text, JsonNode messages) throws IOException {
    Schema schema;
    try {
      schema = new Schema.Parser().parse(text);
    } catch (AvroRuntimeException wrong) {
      return NullNode.instance;
    }
    ArrayNode read = JSON.createArrayNode();
    for (JsonNode message : messages) read.add(read(schema, message.binaryValue()));
    return read;
  }

  static JsonNode read(Schema schema, byte[] message) {
    try {
      var bytes = new ByteArrayInputStream(message);
      var decoder = DecoderFactory.get().directBinaryDecoder(bytes, null);
      Object datum = new GenericDatumReader<>(schema).read(null, decoder);
      return bytes.available() > 0 ? NullNode.instance : json(schema, datum);
    } catch (Exception wrong) {
      return NullNode.instance;
    }
  }

  static JsonNode json(Schema of, Object value) {
    switch (of.getType()) {
      case UNION:
        return json(of.getTypes().get(GenericData.get().resolveUnion(of, value)), value);
      case RECORD:
        ObjectNode record = JSON.createObjectNode();
        for (Schema.Field field : of.getFields())
          record.set(field.name(), json(field.schema(), ((IndexedRecord) value).get(field.pos())));
        return record;
      case ARRAY:
        ArrayNode items = JSON.createArrayNode();
        for (Object item : (Collection<?>) value) items.add(json(of.getElementType(), item));
        return items;
      case MAP:
        ObjectNode map = JSON.createObjectNode();
        ((Map<?, ?>) value).forEach((key, item) -> map.set(key.toString(), json(of.getValueType(), item)));
        return map;
      case BYTES:
        return BinaryNode.valueOf(bytes((ByteBuffer) value));
      case FIXED:
        return BinaryNode.valueOf(((GenericFixed) value).bytes());
      case NULL:
        return NullNode.instance;
      case BOOLEAN:
        return BooleanNode.valueOf((Boolean) value);
      case INT:
      case LONG:
        return LongNode.valueOf(((Number) value).longValue());
      case FLOAT:
      case DOUBLE:
        return DoubleNode.valueOf(((Number) value).doubleValue());
      default:
        return TextNode.valueOf(value.toString());
    }
  }

  static byte[] bytes(ByteBuffer buffer) {
    byte[] found = new byte[buffer.remaining()];
    buffer.get(found);
    return found;
  }
}
