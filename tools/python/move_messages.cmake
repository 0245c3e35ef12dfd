# cmake -DFROM=folder -DTO=folder -P move_messages.cmake: protoc's Python modules import each other as `proto.NAME_pb2`;
# in the package they are `moka.proto.NAME_pb2`.
foreach(name common forks moka record)
  file(READ ${FROM}/${name}_pb2.py text)
  string(REPLACE "from proto import " "from moka.proto import " text "${text}")
  string(REPLACE "from proto." "from moka.proto." text "${text}")
  file(WRITE ${TO}/${name}_pb2.py "${text}")
endforeach()
